// SPDX-License-Identifier: GPL-3.0-or-later
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { connect } from "../link/socket";
import { stats } from "../link/stats";

class Socket {
  static made: Socket[] = [];
  onopen: () => void = () => undefined;
  onclose: () => void = () => undefined;
  onmessage: (event: { data: string | ArrayBuffer }) => void = () => undefined;
  closed = false;

  constructor(readonly url: string) {
    Socket.made.push(this);
  }

  close(): void {
    this.closed = true; // a server that is gone does not answer, so there is no onclose
  }

  say(kind: string): void {
    this.onmessage({ data: JSON.stringify({ kind }) });
  }
}

let links: [up: boolean, oldSeconds: number][];
let messages: string[];

beforeEach(() => {
  vi.useFakeTimers();
  vi.stubGlobal("WebSocket", Socket);
  Socket.made = [];
  links = [];
  messages = [];
  connect({
    onMessage: ({ kind }) => messages.push(kind),
    onFrame: () => undefined,
    onLink: (up, heardMs) => links.push([up, Math.round((Date.now() - heardMs) / 1000)]),
  });
  Socket.made[0]!.onopen();
});
afterEach(() => {
  vi.clearAllTimers();
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

test("what is shown is old after a moment's silence, and new with the next message", () => {
  vi.advanceTimersByTime(7000);
  expect(links).toEqual([[true, 0], [false, 6]]);
  Socket.made[0]!.say("live");
  expect(links.slice(2)).toEqual([[true, 0]]);
  expect(Socket.made).toHaveLength(1);
});

test("a connection that stays silent is given up, though the server does not take part", () => {
  vi.advanceTimersByTime(17000);
  expect(Socket.made).toHaveLength(2);
  expect(Socket.made[0]!.closed).toBe(true);
  Socket.made[0]!.say("live"); // what was still under way
  expect(messages).toEqual([]);
  Socket.made[1]!.onopen();
  Socket.made[1]!.say("live");
  expect(messages).toEqual(["live"]);
  expect(links.at(-1)![0]).toBe(true);
});

test("a machine that slept for an hour connects again within two seconds of waking", () => {
  vi.setSystemTime(Date.now() + 3600_000); // its timers stood still
  vi.advanceTimersByTime(2000);
  expect(links).toEqual([[true, 0], [false, 3601]]);
  expect(Socket.made).toHaveLength(2);
});

test("one that is closed twice connects again once", () => {
  Socket.made[0]!.onclose();
  Socket.made[0]!.onclose();
  vi.advanceTimersByTime(1000);
  expect(Socket.made).toHaveLength(2);
});

test("each attempt waits twice as long as the one before, five seconds at most, and none after a good one", () => {
  const waits: number[] = [];
  for (let attempt = 0; attempt < 6; attempt++) {
    const made = Socket.made.length;
    Socket.made.at(-1)!.onclose();
    for (waits.push(0); Socket.made.length === made; waits[attempt]! += 100) vi.advanceTimersByTime(100);
  }
  expect(waits).toEqual([500, 1000, 2000, 4000, 5000, 5000]);
  Socket.made.at(-1)!.onopen();
  const made = Socket.made.length;
  Socket.made.at(-1)!.onclose();
  vi.advanceTimersByTime(500);
  expect(Socket.made).toHaveLength(made + 1);
});

test("a new connection has its own time to answer", () => {
  vi.advanceTimersByTime(17000); // the first one was silent
  expect(Socket.made).toHaveLength(2);
  vi.advanceTimersByTime(10_000);
  expect(Socket.made).toHaveLength(2);
  vi.advanceTimersByTime(7000);
  expect(Socket.made).toHaveLength(3);
});

test("the first connection is none that came again", () => {
  const before = stats.reconnects;
  connect({ onMessage: () => undefined, onFrame: () => undefined, onLink: () => undefined });
  Socket.made.at(-1)!.onopen();
  expect(stats.reconnects).toBe(before);
});

test("frames that are missing in a connection are counted, and connections that came again", () => {
  const frame = (seq: number) => Float64Array.from([4, seq, 0, 1, 0, 0]).buffer;
  const { drops, frames, reconnects } = stats;
  for (const seq of [7, 8, 11]) Socket.made[0]!.onmessage({ data: frame(seq) });
  expect([stats.drops - drops, stats.frames - frames, stats.last_seq]).toEqual([2, 3, 11]);
  Socket.made[0]!.onclose();
  vi.advanceTimersByTime(1000);
  Socket.made[1]!.onopen();
  Socket.made[1]!.onmessage({ data: frame(90) });
  expect([stats.drops - drops, stats.reconnects - reconnects]).toEqual([2, 1]);
});
