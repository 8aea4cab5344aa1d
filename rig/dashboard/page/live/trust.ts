// SPDX-License-Identifier: GPL-3.0-or-later
// How far a rail's value can be trusted.
import type { Meter, Trust } from "../link/messages";
import { lasted, percent, shortSeconds } from "../text/format";
import { residual } from "./meters";

export interface Note {
  kind: "good" | "warn" | "bad";
  text: string;
  title: string;
}

export function note(name: string, watts: number | null, known: Trust, meter: Meter | undefined): Note {
  const title =
    `meter ${name}: ${meter ? meter.state : "state unknown"}; lost ${percent(known.lost_percent)} of samples; ` +
    `gaps ${shortSeconds(known.gap_seconds)}; clock residual ${shortSeconds(known.clock_residual_seconds)}`;
  const age = watts === null && known.age_seconds ? ` for ${lasted(known.age_seconds)}` : "";
  if (meter && meter.state !== "streaming")
    return { kind: "bad", text: `✕ ${name} ${meter.state}${age}${meter.reason ? ": " + meter.reason : ""}`, title };
  if (watts === null) return { kind: "bad", text: `✕ ${name}: no reading${age}`, title };
  const lossy = (known.lost_percent ?? 0) > 0 || (known.gap_seconds ?? 0) > 0;
  const words = [`lost ${percent(known.lost_percent)}`, `gap ${shortSeconds(known.gap_seconds)}`, `±${residual(known.clock_residual_seconds)}`];
  return { kind: lossy ? "warn" : "good", text: `${lossy ? "▲" : "●"} ${words.join(" · ")}`, title };
}
