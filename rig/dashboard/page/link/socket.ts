// SPDX-License-Identifier: GPL-3.0-or-later
// One WebSocket that reconnects; text is JSON by kind, binary is a frame of traces.
import { decode, type Frame } from "./frames";
import type { Message } from "./messages";
import { stats } from "./stats";

const SILENCE_MS = 15000; // the server sends several times a second: a longer silence is a dead connection
const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 5000;

interface Listener {
  onMessage: (message: Message) => void;
  onFrame: (frame: Frame) => void;
  onLink: (connected: boolean) => void;
}

export function connect({ onMessage, onFrame, onLink }: Listener): void {
  const url = liveAddress(location.href);
  let wait = FIRST_WAIT_MS;
  let opened = false;

  function open(): void {
    const socket = new WebSocket(url);
    socket.binaryType = "arraybuffer";
    let heard = performance.now();
    let previous = 0; // sequence numbers restart with a connection
    const watchdog = setInterval(() => {
      if (performance.now() - heard > SILENCE_MS) socket.close();
    }, 1000);
    socket.onopen = () => {
      if (opened) stats.reconnects++;
      opened = true;
      wait = FIRST_WAIT_MS;
      onLink(true);
    };
    socket.onmessage = ({ data }: MessageEvent<string | ArrayBuffer>) => {
      heard = performance.now();
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
    socket.onclose = () => {
      clearInterval(watchdog);
      onLink(false);
      setTimeout(open, wait);
      wait = Math.min(wait * 2, LONGEST_WAIT_MS);
    };
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
