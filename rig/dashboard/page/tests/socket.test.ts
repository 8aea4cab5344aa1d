// SPDX-License-Identifier: GPL-3.0-or-later
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { connect } from "../link/socket";

class Socket {
  static made: Socket[] = [];
  onopen: () => void = () => undefined;
  onclose: () => void = () => undefined;
  onmessage: (event: { data: string }) => void = () => undefined;
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
