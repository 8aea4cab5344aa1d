// SPDX-License-Identifier: GPL-3.0-or-later
// One WebSocket that reconnects; text is JSON by kind, binary is a frame of traces.
import { decode, type Frame } from "./frames";
import type { Message } from "./messages";
import { stats } from "./stats";

// The server sends several times a second. After the first silence what is shown counts as old;
// after the second the connection is given up.
const QUIET_MS = 5000;
const SILENCE_MS = 15000;
const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 5000;

interface Listener {
  onMessage: (message: Message) => void;
  onFrame: (frame: Frame) => void;
  onLink: (connected: boolean, heardMs: number) => void; // and when the server was last heard
}

export function connect({ onMessage, onFrame, onLink }: Listener): void {
  const url = liveAddress(location.href);
  let wait = FIRST_WAIT_MS;
  let opened = false;
  // By the wall: a machine that sleeps does not count that time in performance.now().
  let heard = Date.now();
  let up: boolean | null = null;
  const link = (is: boolean) => {
    if (is === up) return;
    up = is;
    onLink(is, heard);
  };

  function open(): void {
    const socket = new WebSocket(url);
    socket.binaryType = "arraybuffer";
    const began = Date.now();
    let previous = 0; // sequence numbers restart with a connection
    let over = false;
    const watchdog = setInterval(() => {
      const silence = Date.now() - Math.max(heard, began);
      if (silence > QUIET_MS) link(false);
      if (silence <= SILENCE_MS) return;
      lost(); // now: a server that is no longer there does not take part in closing either
      socket.close();
    }, 1000);
    const lost = () => {
      if (over) return;
      over = true;
      clearInterval(watchdog);
      link(false);
      setTimeout(open, wait);
      wait = Math.min(wait * 2, LONGEST_WAIT_MS);
    };
    socket.onopen = () => {
      if (over) return;
      if (opened) stats.reconnects++;
      opened = true;
      wait = FIRST_WAIT_MS;
      heard = Date.now();
      link(true);
    };
    socket.onmessage = ({ data }: MessageEvent<string | ArrayBuffer>) => {
      if (over) return;
      heard = Date.now();
      link(true);
      if (typeof data === "string") {
        stats.messages++;
        onMessage(JSON.parse(data) as Message);
        return;
      }
      const frame = decode(data);
      stats.frames++;
      if (previous) stats.drops += Math.max(0, frame.seq - previous - 1);
      previous = stats.last_seq = frame.seq;
      stats.dropped_by_server = frame.dropped;
      onFrame(frame);
    };
    socket.onclose = lost;
  }
  open();
}

// The address of /live for a page: of its server, and of the campaign that it was asked for.
export function liveAddress(page: string): string {
  const from = new URL(page);
  const url = new URL("/live", from);
  url.protocol = from.protocol === "https:" ? "wss:" : "ws:";
  const campaign = from.searchParams.get("campaign");
  if (campaign) url.searchParams.set("campaign", campaign);
  return url.href;
}
