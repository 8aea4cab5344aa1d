// SPDX-License-Identifier: GPL-3.0-or-later
// Pause, resume, stop, retry: of a campaign, where the server has a token for it. The page asks for
// the token once and keeps it for as long as the tab is open; it goes into no address.
import { id, make, setText } from "../dom/elements";
import { fetchJson, Refused } from "../link/api";
import type { FoundCampaign } from "../link/messages";
import type { CampaignDetail, Campaigns } from "../link/replies";

export type Action = "pause" | "resume" | "stop" | "retry";

const KEY = "joulerig-control-token";
const LABELS: Record<Action, string> = { pause: "Pause after this run", resume: "Resume", stop: "Stop after this run", retry: "Retry a run" };
const SURE: Partial<Record<Action, string>> = {
  stop: "Stop this campaign? What runs now is finished first; Resume continues it.",
};
const RETRIED: readonly string[] = ["partial", "failed", "lost", "refused", "not-run"];
let campaign: FoundCampaign | null = null;

export interface Asked {
  campaign: string;
  action: Action;
  run?: string;
}

// What a request of a control is sent as.
export const requestOf = (asked: Asked, token: string): RequestInit => ({
  method: "POST",
  headers: { Authorization: `Bearer ${token}`, "Content-Type": "application/json" },
  body: JSON.stringify(asked),
});

// Which actions make sense now.
export function possible(shown: Pick<FoundCampaign, "finished_ns" | "runs"> | null): Action[] {
  if (!shown) return [];
  const again = shown.runs.some(({ status }) => RETRIED.includes(status)) ? (["retry"] as const) : [];
  return shown.finished_ns === null ? ["pause", "resume", "stop", ...again] : [...again];
}

export function start(): void {
  const runs = make("select", { id: "control-run", "aria-label": "Run to retry" });
  const buttons = (Object.keys(LABELS) as Action[]).map((action) => {
    const button = make("button", { type: "button", "data-action": action }, LABELS[action]);
    button.addEventListener("click", () => void press(action));
    return button;
  });
  const token = make("input", { id: "control-token", type: "password", autocomplete: "off", maxlength: 200 });
  const form = make(
    "form",
    { id: "token-form", hidden: true },
    make("label", { for: "control-token" }, "Token ", make("small", {}, "control_token_file of the configuration; of 'rig up': var/secrets")),
    token,
    make("button", { type: "submit" }, "Use it"),
  );
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (!token.value) return;
    sessionStorage.setItem(KEY, token.value.trim());
    token.value = "";
    form.hidden = true;
    if (waiting) void press(waiting);
  });
  id("controls").replaceChildren(
    make("p", { class: "buttons" }, ...buttons, runs),
    form,
    make("p", { id: "control-answer", role: "status" }),
  );
  show(null);
  void askAllowed();
}

let waiting: Action | null = null;
let allowed = true; // the server says so before anything is pressed

export async function askAllowed(): Promise<void> {
  try {
    allowed = (await fetchJson<Campaigns>("/api/campaigns")).control !== false;
  } catch {
    return; // a press says what is wrong
  }
  if (!allowed) answer("Read only: no control_token_file is configured.");
  show(campaign);
}

// What became of a resumption from here.
export function showResuming(resuming: CampaignDetail["resuming"]): void {
  if (resuming?.state === "failed") answer(`✕ could not be resumed: ${resuming.why}`, true);
}

export function show(shown: FoundCampaign | null): void {
  campaign = shown;
  const now = allowed ? possible(shown) : [];
  for (const button of document.querySelectorAll<HTMLButtonElement>("[data-action]"))
    button.disabled = !now.includes(button.dataset.action as Action);
  const select = id<HTMLSelectElement>("control-run");
  const kept = select.value;
  const runs = (shown?.runs ?? []).filter(({ status }) => RETRIED.includes(status));
  if ([...select.options].map((option) => option.value).join() !== runs.map((run) => run.id).join())
    select.replaceChildren(...runs.map((run) => make("option", { value: run.id }, `run ${run.ordinal}, ${run.status}`)));
  select.value = runs.some((run) => run.id === kept) ? kept : (runs[0]?.id ?? "");
  select.hidden = !runs.length;
}

async function press(action: Action): Promise<void> {
  if (!campaign) return;
  const sure = SURE[action];
  if (waiting !== action && sure && !confirm(sure)) return;
  const token = sessionStorage.getItem(KEY);
  if (!token) {
    waiting = action;
    id("token-form").hidden = false;
    id("control-token").focus();
    return;
  }
  waiting = null;
  const run = id<HTMLSelectElement>("control-run").value;
  const asked: Asked = { campaign: campaign.id, action, ...(action === "retry" ? { run } : {}) };
  answer("…");
  try {
    const { text } = await fetchJson<{ text: string }>("/api/control", requestOf(asked, token));
    answer(`✓ ${asked.campaign}: ${text}`);
  } catch (error) {
    if (error instanceof Refused && error.status === 401) sessionStorage.removeItem(KEY); // it is asked for again
    answer(`✕ ${error instanceof Error ? error.message : String(error)}`, true);
  }
}

function answer(text: string, bad = false): void {
  setText(id("control-answer"), text);
  id("control-answer").classList.toggle("bad", bad);
}
