// SPDX-License-Identifier: GPL-3.0-or-later
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { addressOf, fetchJson, poll, Refused } from "../link/api";

const replies = (...list: (Response | Error)[]) =>
  vi.fn(async (_: string) => {
    const next = list.shift();
    if (!next || next instanceof Error) throw next ?? new Error("asked too often");
    return next;
  });

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

test("parameters are encoded", () => {
  expect(addressOf("/api/campaign", { campaign: "a&b=c" })).toBe("/api/campaign?campaign=a%26b%3Dc");
  expect(addressOf("/api/rig")).toBe("/api/rig");
});

test("a refusal is the server's line", async () => {
  vi.stubGlobal("fetch", replies(new Response("there is none of this id\n", { status: 404 })));
  await expect(fetchJson("/x")).rejects.toThrow(new Refused("there is none of this id", 404));
});

test("no answer is said in a sentence", async () => {
  vi.stubGlobal("fetch", replies(new TypeError("Failed to fetch")));
  await expect(fetchJson("/x")).rejects.toThrow("the dashboard's server does not answer");
});

test("a poll goes on after a problem, and says how old its last reply is", async () => {
  vi.stubGlobal("fetch", replies(Response.json(1), new Response("busy", { status: 503 }), Response.json(2)));
  const seen: unknown[] = [];
  poll<number>({
    address: () => "/x",
    everySeconds: 3,
    onReply: (reply) => seen.push(reply),
    onProblem: (why, age) => seen.push([why, Math.round(age ?? -1)]),
  });
  await vi.advanceTimersByTimeAsync(0);
  await vi.advanceTimersByTimeAsync(3000);
  await vi.advanceTimersByTimeAsync(3000);
  expect(seen).toEqual([1, ["busy", 3], 2]);
});

test("a poll with nothing to ask for asks nothing", async () => {
  const fetched = replies();
  vi.stubGlobal("fetch", fetched);
  poll({ address: () => null, everySeconds: 1, onReply: () => undefined, onProblem: () => undefined });
  await vi.advanceTimersByTimeAsync(5000);
  expect(fetched).not.toHaveBeenCalled();
});

test("a hidden page does not ask, and asks at once when it is seen", async () => {
  const fetched = replies(Response.json(1));
  vi.stubGlobal("fetch", fetched);
  const hidden = vi.spyOn(document, "hidden", "get").mockReturnValue(true);
  poll({ address: () => "/seen", everySeconds: 1000, onReply: () => undefined, onProblem: () => undefined });
  await vi.advanceTimersByTimeAsync(0);
  expect(fetched).not.toHaveBeenCalled();
  hidden.mockReturnValue(false);
  document.dispatchEvent(new Event("visibilitychange"));
  await vi.advanceTimersByTimeAsync(0);
  expect(fetched.mock.calls.filter(([address]) => address === "/seen")).toHaveLength(1);
  hidden.mockRestore();
});

test("a poll asks once at a time, however often the page is seen", async () => {
  let answer: (reply: Response) => void = () => undefined;
  const slow = () => new Promise<Response>((done) => (answer = done));
  const fetched = vi.fn((address: string) => (address === "/slow" ? slow() : Promise.reject(new Error(address))));
  vi.stubGlobal("fetch", fetched);
  const seen: number[] = [];
  poll<number>({ address: () => "/slow", everySeconds: 1000, onReply: (reply) => seen.push(reply), onProblem: () => undefined });
  const asked = () => fetched.mock.calls.filter(([address]) => address === "/slow").length;
  document.dispatchEvent(new Event("visibilitychange"));
  expect(asked()).toBe(1);
  answer(Response.json(5));
  await vi.advanceTimersByTimeAsync(0);
  expect(seen).toEqual([5]);
  document.dispatchEvent(new Event("visibilitychange"));
  expect(asked()).toBe(2);
});

test("an address that was given up is no problem of the server", async () => {
  const given = new DOMException("given up", "AbortError");
  vi.stubGlobal("fetch", vi.fn(async () => Promise.reject(given)));
  await expect(fetchJson("/x")).rejects.toBe(given);
});
