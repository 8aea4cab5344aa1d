// SPDX-License-Identifier: GPL-3.0-or-later
// One WebSocket that reconnects; text is JSON by kind, binary is a frame of traces.
import { stats } from "./stats.js";
import { decode } from "./frames.js";

const SILENCE_MS = 15000; // the server sends several times a second: a longer silence is a dead connection

export function connect({ onMessage, onFrame, onLink }) {
  const url = new URL("/live", location.href);
  url.protocol = location.protocol === "https:" ? "wss:" : "ws:";
  const campaign = new URLSearchParams(location.search).get("campaign");
  if (campaign) url.searchParams.set("campaign", campaign);
  let wait = 500;
  let opened = false;

  function open() {
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
      wait = 500;
      onLink(true);
    };
    socket.onmessage = ({ data }) => {
      heard = performance.now();
      if (typeof data === "string") {
        stats.messages++;
        onMessage(JSON.parse(data));
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
      wait = Math.min(wait * 2, 5000);
    };
  }
  open();
}
