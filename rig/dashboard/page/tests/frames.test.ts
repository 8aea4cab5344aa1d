// SPDX-License-Identifier: GPL-3.0-or-later
import { expect, test } from "vitest";
import { decode } from "../link/frames";
import { liveAddress } from "../link/socket";

// As rig/dashboard/web/frames.py packs it.
function pack(head: number[], sections: { head: number[]; values: number[] }[]): ArrayBuffer {
  const parts: Uint8Array[] = [new Uint8Array(Float64Array.from([...head, sections.length]).buffer)];
  for (const { head: numbers, values } of sections) {
    parts.push(new Uint8Array(Float64Array.from(numbers).buffer));
    parts.push(new Uint8Array(Float32Array.from([...values, ...(values.length % 2 ? [0] : [])]).buffer));
  }
  return Uint8Array.from(parts.flatMap((part) => [...part])).buffer;
}

test("a frame without sections is its header", () => {
  expect(decode(pack([4, 17, 1000.5, 3, 2], []))).toEqual({
    version: 4,
    seq: 17,
    now: 1000.5,
    layout: 3,
    dropped: 2,
    sections: [],
  });
});

test("a section of an odd number of values is padded, and the next one is read", () => {
  const frame = decode(
    pack(
      [4, 1, 0, 1, 0],
      [
        { head: [0.1, 100, 3, 1, 1], values: [1, 2, Number.NaN] },
        { head: [0.5, 20, 1, 2, 1], values: [7, 8] },
      ],
    ),
  );
  expect([...Array.from(frame.sections[0]!.values)]).toEqual([1, 2, Number.NaN]);
  expect(frame.sections[1]).toMatchObject({ bucketSeconds: 0.5, first: 20, channels: 2 });
  expect([...Array.from(frame.sections[1]!.values)]).toEqual([7, 8]);
});

test("half a frame is an error", () => expect(() => decode(new ArrayBuffer(40))).toThrow());

test.each([
  ["http://127.0.0.1:8080/", "ws://127.0.0.1:8080/live"],
  ["https://lab.example/rig", "wss://lab.example/live"],
  ["http://127.0.0.1:8080/?campaign=a%20b", "ws://127.0.0.1:8080/live?campaign=a+b"],
  ["http://127.0.0.1:8080/history?from=1", "ws://127.0.0.1:8080/live"],
])("the live address of %s is %s", (page, live) => expect(liveAddress(page)).toBe(live));
