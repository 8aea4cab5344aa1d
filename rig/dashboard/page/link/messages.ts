// SPDX-License-Identifier: GPL-3.0-or-later
// What the server sends over /live (rig/dashboard/poller.py, campaign/state.py).
import type { PhaseName, PreconditioningPhase, Status } from "../generated/names";

export interface DriveName {
  host: string;
  drive: string;
}

export interface RailName extends DriveName {
  rail: string;
  meter: string;
}

export interface Layout {
  kind: "layout";
  version: number;
  layout: number;
  span_seconds: number;
  buckets: { power: number; io: number };
  rails: RailName[];
  drives: DriveName[];
}

export interface Settling {
  began_ns: number;
  at_most_seconds: number;
  at_most_rounds: number;
}

export interface CurrentRun {
  id: string;
  ordinal: number;
  cell: string;
  replicate: number;
  drive: string;
  started_ns: number | null;
  settling: Settling | null;
}

export interface HostState {
  host: string;
  done: number;
  total: number;
  run: CurrentRun | null;
}

export interface Run {
  id: string;
  ordinal: number;
  host: string;
  drive: string;
  filesystem: string;
  scheduler: string;
  workload: string;
  replicate: number;
  status: Status;
  reason: string;
  started_ns: number | null;
  ended_ns: number | null;
  journal?: string;
  joules?: number | null;
  ops_per_joule?: number | null;
  mb_per_joule?: number | null;
  ops_per_second?: number | null;
}

export type Metric = "ops" | "mb";

export interface Figure {
  mean: number;
  low: number;
  high: number;
  n: number;
  share: number;
  mark: "best" | "open" | "";
  energy_low?: number;
  energy_high?: number;
}

export interface Cell {
  planned: number;
  partial: number;
  failed: number;
  running: number;
  not_run: number;
  ops?: Figure;
  mb?: Figure;
  unmetered?: { n: number; ops?: number; mb?: number };
}

export interface Block {
  drive: string;
  workload: string;
  factors: Record<string, unknown>;
  filesystems: string[];
  schedulers: string[];
  untested: string;
  cells: Record<string, Record<string, Cell>>;
}

export type Arrays = Record<string, Record<string, string[]>>;

interface AboutCampaigns {
  kind: "campaign";
  chosen: string | null;
  newest: string | null;
  campaigns: string[];
  problem: string;
}

export interface FoundCampaign extends AboutCampaigns {
  found: true;
  id: string;
  name: string;
  question: string;
  virtual: boolean;
  created_ns: number;
  started_ns: number | null;
  finished_ns: number | null;
  state: string;
  total: number;
  done: number;
  counts: Record<Status, number>;
  eta_ns: number | null;
  eta_at_most: boolean;
  hosts: HostState[];
  phases: PhaseName[];
  settling_phases: PreconditioningPhase[];
  arrays: Arrays;
  runs: Run[];
  warnings: string[];
  table: Block[];
}

export type CampaignMessage = FoundCampaign | (AboutCampaigns & { found: false });

export interface Trust {
  age_seconds?: number;
  volts?: number | null;
  amps?: number | null;
  lost_percent?: number | null;
  gap_seconds?: number | null;
  clock_residual_seconds?: number | null;
}

export interface Meter {
  name: string;
  state: string;
  reason?: string;
  lost_percent: number | null;
  gap_seconds: number | null;
  clock_residual_seconds: number | null;
  observed_rate_hz: number | null;
  unaccounted: number | null;
}

export interface PowerStatus {
  ok: boolean;
  message: string;
  meters: Meter[];
}

export interface Band {
  campaign: string;
  run: string;
  host: string;
  drive: string;
  phase: string;
  start_ns: number;
  end_ns: number | null;
}

export interface Round {
  number: number;
  iops: number;
  watts: number | null;
}

export interface ClassFigures {
  ops: number;
  seconds?: number;
  p50?: number;
  p99?: number;
  max?: number;
}

export interface Load extends DriveName {
  run: string;
  age_seconds: number;
  classes: Record<string, ClassFigures>; // without those that had no operation
}

export interface Live {
  kind: "live";
  now_ns: number;
  slowness: number;
  influx: { ok: boolean; message: string };
  loads: Load[];
  powerd: PowerStatus;
  rails: Trust[];
  bands: Band[];
  rounds: Record<string, Round[]>;
}

export type NoticeKind = "bad" | "warn" | "info";
export type Notice = [NoticeKind, string];

export interface Notices {
  kind: "notices";
  notices: Notice[];
}

export type Message = Layout | CampaignMessage | Live | Notices;
