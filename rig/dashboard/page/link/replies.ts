// SPDX-License-Identifier: GPL-3.0-or-later
// What pages fetch (rig/dashboard/README.md has each field). null is "not known", never 0.
import type { Status } from "../generated/names";
import type { Cell, Figure, Metric } from "./messages";

export interface Report {
  name: string;
  path: string;
  bytes: number;
}

export interface ListedCampaign {
  id: string;
  name: string;
  question: string;
  kind: string;
  virtual: boolean;
  playbook: string | null;
  created_ns: number;
  finished_ns: number | null;
  last_event_ns: number | null;
  state: string;
  executed: boolean;
  asked: string | null;
  counts: Partial<Record<Status, number>>;
  total: number;
  kwh: number | null;
  kwh_missing: number;
  written_bytes: number | null;
  comparable: string;
  reports: Report[];
}

export interface Campaigns {
  control?: boolean; // campaigns can be controlled from here
  campaigns: ListedCampaign[];
  problem: string;
}

export interface Interval {
  low: number;
  high: number;
}

export interface Replicate {
  id: string;
  ordinal: number;
  replicate: number;
  host: string;
  status: Status;
  reason: string;
  started_ns: number | null;
  ended_ns: number | null;
  attempts: number;
  ops_per_joule: number | null;
  mb_per_joule: number | null;
  joules: number | null;
  low: number | null;
  high: number | null;
  lost_percent: number | null;
  steady: boolean | null;
  slowness: number | null;
  device_bound_fraction: number | null;
}

export interface PlannedCell {
  drive: string;
  workload: string;
  factors: Record<string, unknown>;
  filesystem: string;
  scheduler: string;
  cell: string;
  runs: Replicate[];
  ai: Partial<Record<Metric, Figure & { interval: Interval | null }>>;
  to_quiescence: { ops_per_joule: number | null; runs: number; settled: number; why: string } | null;
  unmetered: Cell["unmetered"] | null;
  untested: string;
  dropped: { by: string; reason: string } | null;
}

export interface Endurance {
  host: string;
  drive: string;
  written_bytes: number | null;
  by: "record" | "workload";
  rated_bytes: number | null;
  fraction: number | null;
}

export interface CampaignDetail {
  id: string;
  kind: string;
  kwh: number | null;
  kwh_missing: number;
  cells: PlannedCell[];
  endurance: Endurance[];
  events: { time_ns: number; run: string | null; kind: string; text: string }[];
  resuming?: { state: "started" | "ended" | "failed"; why: string } | null; // as asked for here
  log: { lines: string[]; age_seconds: number | null; why: string };
}

export interface RigHost {
  name: string;
  address: string | null;
  virtual: boolean;
  state: "reporting" | "silent" | "unknown";
  age_seconds: number | null;
  kernel: string | null;
  cpus: number | null;
  cpu_busy: number | null;
  memory_used_bytes: number | null;
  package_watts: number | null;
  agent: { cpu: number | null; rss: number | null; why: string; spooled_bytes: number | null; dropped_lines: number | null };
  clock: { offset_seconds: number | null; error_seconds: number | null; age_seconds: number | null } | null;
  reservation: { held: { owner: string | null; purpose: string | null }[]; age_seconds: number } | null;
  runs: string[];
}

export interface Health {
  temperature_celsius?: number | null;
  percentage_used?: number | null;
  media_errors?: number | null;
  unsafe_shutdowns?: number | null;
  power_on_hours?: number | null;
  data_units_written_bytes?: number | null;
  age_seconds?: number | null;
}

// Of the last second that a drive had measured itself when its host asked, and of its rails then.
export interface OwnPower {
  watts: number;
  rails_watts: number | null;
  age_seconds: number;
}

export interface PowerState {
  number: number;
  most_watts: number | null; // that its drive states for it
}

export interface RigDrive {
  host: string;
  name: string;
  interface: string | null;
  serial: string | null;
  wwn: string | null;
  size_bytes: number | null;
  plp: boolean | null;
  profile: string | null;
  model: string | null;
  firmware: string | null;
  seen: { run: string; age_seconds: number; power_state: PowerState | null } | null; // by the last run
  rails: string[];
  health: Health | null;
  own_power: OwnPower | null;
  rated_bytes: number | null;
  lease: { campaign: string; run: string; since_ns: number | null } | null;
  adopted: { may_be_wiped: boolean; why: string; holds: string | null; age_seconds: number } | null;
  roles: string[];
}

export interface RigMeter {
  name: string;
  driver: string | null;
  state: string | null;
  reason: string | null;
  rate_hz: number | null;
  observed_rate_hz: number | null;
  expected: number | null;
  received: number | null;
  lost: number | null;
  lost_percent: number | null;
  gap_seconds: number | null;
  unaccounted: number | null;
  balanced: boolean | null;
  clock_residual_seconds: number | null;
  calibration: { state: string | null; reason: string | null; date: string | null; expires: string | null };
  rails: { rail: string; host: string; drive: string; volts: number | null; amps: number | null; watts: number | null }[];
}

export interface RigService {
  name: string;
  part: string;
  pid: number;
  cpu_fraction: number;
  over_seconds: number;
  rss_bytes: number;
  watts: number | null;
}

export interface Rig {
  virtual: boolean;
  slowness: number;
  now_ns: number;
  lab_age_seconds: number | null;
  problems: string[];
  hosts: RigHost[];
  drives: RigDrive[];
  meters: RigMeter[];
  machine: { processors: number | null; cpu_fraction: number | null; package_watts: number | null; why: string };
  services: RigService[];
}
