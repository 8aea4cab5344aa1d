// SPDX-License-Identifier: GPL-3.0-or-later
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { askAllowed, possible, requestOf, show, showResuming, start } from "../campaign/controls";
import { wallTime } from "../campaign/page";
import { sums } from "../campaign/story";
import type { FoundCampaign } from "../link/messages";
import type { Endurance } from "../link/replies";

const campaign = (more: Partial<FoundCampaign> = {}) =>
  ({ id: "demo-1", finished_ns: null, eta_ns: 1600e9, eta_at_most: false, runs: [{ id: "demo-1-0002", ordinal: 2, status: "failed" }], ...more }) as FoundCampaign;
const drive = (more: Partial<Endurance>): Endurance => ({ host: "h", drive: "d", written_bytes: 1e12, by: "record", rated_bytes: null, fraction: null, ...more });

describe("sums", () => {
  const base = { kwh: 0.25, kwh_missing: 0, endurance: [drive({}), drive({ drive: "e" })] };
  test("add what drives had written", () => {
    expect(sums(base)).toEqual([
      ["Energy of the rails under test", "250 Wh"],
      ["Phases of a rail without energy", "none"],
      ["Written", "2.00 TB"],
    ]);
  });
  test("are at least so much where something is not known", () => {
    const some = sums({ kwh: 2, kwh_missing: 3, endurance: [drive({}), drive({ written_bytes: null })] });
    expect(some.map(([, text]) => text)).toEqual(["≥ 2.00 kWh", "▲ 3", "≥ 1.00 TB"]);
  });
  test("are unknown where nothing is", () => {
    expect(sums({ kwh: null, kwh_missing: 3, endurance: [] }).map(([, text]) => text)).toEqual(["–", "▲ 3", "–"]);
  });
});

test("the end is said by this machine's clock", () => {
  const at = new Date(2026, 10, 20, 12, 0, 0).getTime();
  expect(wallTime(campaign(), 1000, at)).toBe("about 12:10");
  expect(wallTime(campaign({ eta_at_most: true }), 1000, at)).toBe("by 12:10");
  expect(wallTime(campaign({ eta_ns: null }), 1000, at)).toBe("after the first run");
  expect(wallTime(campaign({ finished_ns: 1 }), 1000, at)).toBe("over");
});

describe("controls", () => {
  const press = async (action: string) => {
    document.querySelector<HTMLButtonElement>(`[data-action="${action}"]`)!.click();
    await vi.waitFor(() => expect(document.getElementById("control-answer")!.textContent).not.toBe("…"));
  };
  let fetched: ReturnType<typeof vi.fn>;

  beforeEach(async () => {
    sessionStorage.clear();
    document.body.innerHTML = '<div id="controls"></div>';
    vi.stubGlobal("fetch", vi.fn(async () => Response.json({ campaigns: [], problem: "", control: true })));
    start();
    await askAllowed();
    fetched = vi.fn(async () => Response.json({ campaign: "demo-1", action: "pause", text: "is paused" }));
    vi.stubGlobal("fetch", fetched);
    show(campaign());
  });
  afterEach(() => vi.unstubAllGlobals());

  test("are those that make sense", () => {
    expect(possible(null)).toEqual([]);
    expect(possible(campaign({ runs: [] }))).toEqual(["pause", "resume", "stop"]);
    expect(possible(campaign({ finished_ns: 1 }))).toEqual(["retry"]);
    show(campaign({ finished_ns: 1, runs: [] }));
    expect([...document.querySelectorAll<HTMLButtonElement>("[data-action]")].every((button) => button.disabled)).toBe(true);
  });

  test("send the token in a header and in no address", () => {
    const request = requestOf({ campaign: "demo-1", action: "pause" }, "secret");
    expect(request.headers).toMatchObject({ Authorization: "Bearer secret" });
    expect(request.body).toBe('{"campaign":"demo-1","action":"pause"}');
  });

  test("ask for the token once, then do what was asked for", async () => {
    document.querySelector<HTMLButtonElement>('[data-action="pause"]')!.click();
    expect(document.getElementById("token-form")!.hidden).toBe(false);
    expect(fetched).not.toHaveBeenCalled();
    document.querySelector<HTMLInputElement>("#control-token")!.value = "secret";
    document.querySelector("form")!.dispatchEvent(new Event("submit"));
    await vi.waitFor(() => expect(document.getElementById("control-answer")!.textContent).toBe("✓ demo-1: is paused"));
    expect(document.getElementById("token-form")!.hidden).toBe(true);
    await press("resume");
    expect(fetched).toHaveBeenCalledTimes(2);
    const [address, request] = fetched.mock.calls[1] as unknown as [string, RequestInit];
    expect(address).toBe("/api/control");
    expect(request.headers).toMatchObject({ Authorization: "Bearer secret" });
    expect(document.querySelector<HTMLInputElement>("#control-token")!.value).toBe("");
  });

  test("name the run that is retried", async () => {
    sessionStorage.setItem("joulerig-control-token", "secret");
    await press("retry");
    const [, request] = fetched.mock.calls[0] as unknown as [string, RequestInit];
    expect(JSON.parse(String(request.body))).toEqual({ campaign: "demo-1", action: "retry", run: "demo-1-0002" });
  });

  test("show the server's refusal, and forget a wrong token", async () => {
    sessionStorage.setItem("joulerig-control-token", "wrong");
    fetched.mockImplementation(async () => new Response("this needs the dashboard's token\n", { status: 401 }));
    await press("pause");
    expect(document.getElementById("control-answer")!.textContent).toBe("✕ this needs the dashboard's token");
    expect(sessionStorage.getItem("joulerig-control-token")).toBeNull();
  });

  test("are off, and say so, where the server has no token", async () => {
    fetched.mockImplementation(async () => Response.json({ campaigns: [], problem: "", control: false }));
    await askAllowed();
    expect([...document.querySelectorAll<HTMLButtonElement>("[data-action]")].every((button) => button.disabled)).toBe(true);
    expect(document.getElementById("control-answer")!.textContent).toContain("Read only");
  });

  test("keep a token that is right when something else is refused", async () => {
    sessionStorage.setItem("joulerig-control-token", "right");
    fetched.mockImplementation(async () => new Response("demo-1: is finished\n", { status: 409 }));
    await press("pause");
    expect(document.getElementById("control-answer")!.textContent).toBe("✕ demo-1: is finished");
    expect(sessionStorage.getItem("joulerig-control-token")).toBe("right");
  });

  test("say why a campaign could not be resumed", () => {
    showResuming({ state: "failed", why: "no lab" });
    expect(document.getElementById("control-answer")!.textContent).toBe("✕ could not be resumed: no lab");
  });

  test("stop only when a person is sure", () => {
    sessionStorage.setItem("joulerig-control-token", "secret");
    vi.stubGlobal("confirm", () => false);
    document.querySelector<HTMLButtonElement>('[data-action="stop"]')!.click();
    expect(fetched).not.toHaveBeenCalled();
  });
});
