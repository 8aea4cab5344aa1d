-- SPDX-License-Identifier: GPL-3.0-or-later
-- A campaign's journal: results/<campaign-id>/journal.sqlite (WAL). Times are controller UTC ns; units are in the names.
PRAGMA user_version = 5;

CREATE TABLE campaign (
  id TEXT PRIMARY KEY,             -- <name>-<UTC yyyymmdd-hhmmss>
  name TEXT NOT NULL,
  question TEXT NOT NULL,
  created_ns INTEGER NOT NULL,
  finished_ns INTEGER,
  definition TEXT NOT NULL,        -- JSON: the campaign mapping as validated, defaults filled in
  lab TEXT NOT NULL,               -- JSON: the lab model as it was (no secrets)
  virtual INTEGER NOT NULL,        -- 1: some test host is a virtual one, every figure must say so
  provenance TEXT NOT NULL         -- JSON: versions of the controller's tools, git revision, seed
);

CREATE TABLE run (
  id TEXT PRIMARY KEY,             -- <campaign-id>-<ordinal, 4 digits>: unique over campaigns, it is InfluxDB's `run` tag
  ordinal INTEGER NOT NULL UNIQUE, -- order of execution within a host
  block INTEGER NOT NULL,          -- randomisation block (= replicate)
  replicate INTEGER NOT NULL,
  host TEXT NOT NULL,
  drive TEXT NOT NULL,
  filesystem TEXT NOT NULL,
  scheduler TEXT NOT NULL,
  workload TEXT NOT NULL,
  cell TEXT NOT NULL,              -- "drive/filesystem/scheduler/workload[/factor=level...]": equal for replicates
  factors TEXT NOT NULL,           -- JSON: every factor's level
  status TEXT NOT NULL CHECK (status IN ('planned','running','ok','partial','failed','lost','not-run')),
  reason TEXT NOT NULL DEFAULT '', -- why it is not ok; of an ok run empty, or why it has no joules (no rail)
  started_ns INTEGER,
  ended_ns INTEGER
);

CREATE TABLE phase (
  run TEXT NOT NULL REFERENCES run(id),
  phase TEXT NOT NULL,             -- prepare, precondition, idle, workload, tail
  start_ns INTEGER NOT NULL,
  end_ns INTEGER NOT NULL,
  clock_offset_ns INTEGER NOT NULL,
  clock_error_ns INTEGER NOT NULL,
  PRIMARY KEY (run, phase)
);

CREATE TABLE performance (         -- of the workload phase, from the workload's own report
  run TEXT PRIMARY KEY REFERENCES run(id),
  seconds REAL NOT NULL,           -- duration of the workload phase
  ops INTEGER NOT NULL,
  read_bytes INTEGER,              -- NULL: the report does not tell (since version 4)
  write_bytes INTEGER,
  syncs INTEGER,
  ops_per_second REAL NOT NULL,    -- ops / seconds
  mb_per_second REAL,              -- (read_bytes + write_bytes) / 1e6 / seconds
  latency_p50_seconds REAL,
  latency_p99_seconds REAL,
  -- From here on since version 4.
  unit TEXT NOT NULL DEFAULT 'operation', -- what one of the ops is
  figure_name TEXT,                -- the figure of merit of a program of others; NULL: it has none
  figure_unit TEXT,
  figure REAL,
  figure_better TEXT               -- higher or lower
);

CREATE TABLE energy (              -- one row per run, phase and rail that is measured
  run TEXT NOT NULL REFERENCES run(id),
  phase TEXT NOT NULL,
  meter TEXT NOT NULL,
  rail TEXT NOT NULL,
  drive TEXT NOT NULL,             -- an array's energy is the sum over its members' rails
  joules REAL,                     -- what was measured; NULL: no measurement (no meter, no joules)
  true_joules REAL,                -- virtual lab only: what the twin says it drew
  samples INTEGER NOT NULL,        -- the ledger, between the points that enclose the phase:
  expected INTEGER NOT NULL,       -- expected = samples + lost + duplicate + repeated
  lost INTEGER NOT NULL,
  gap_seconds REAL NOT NULL,
  -- From here on since version 2; NULL: not known.
  joules_low REAL,                 -- joules + gap_low_joules - product - (interpolation + alignment + meter, if known)
  joules_high REAL,                -- joules + gap_high_joules + (interpolation + alignment + meter, if known)
  gap_low_joules REAL,             -- what the gaps drew at least
  gap_high_joules REAL,            -- and at most
  interpolation_joules REAL,       -- power between the points around the phase's ends, either way
  alignment_joules REAL,           -- the ends' own instants, either way
  product_joules REAL,             -- how much too high mean volts times mean amps can be
  meter_joules REAL,               -- expanded uncertainty (k = 2) of the meter; NULL: its class is not stated
  volt_seconds REAL,               -- integrals of what was measured, for the meter's budget
  amp_seconds REAL,
  duplicate INTEGER,               -- in place of lost ones
  repeated INTEGER,                -- the instrument held an old value
  surplus INTEGER,                 -- beyond the time that passed; not in expected
  worst_gap_seconds REAL,
  PRIMARY KEY (run, phase, meter, rail, drive)  -- since version 3 with the drive: two on one meter may share a rail's name
);

-- device_bound_fraction, since version 3: part of the workload phase in which a twin's model of time set the pace; NULL on a physical host.
CREATE TABLE result (              -- one row per run with performance and energy of the workload phase
  run TEXT PRIMARY KEY REFERENCES run(id),
  joules REAL,                     -- sum over the drive's rails; NULL when any rail is missing
  true_joules REAL,
  error_percent REAL,              -- 100 (joules - true_joules) / true_joules
  mean_watts REAL,
  ai_ops_per_joule REAL,
  ai_mb_per_joule REAL,
  joules_low REAL,                 -- since version 2: sums over the rails; NULL when any is not known
  joules_high REAL,
  device_bound_fraction REAL,
  cpu_joules REAL                  -- since version 5: of the host's processor packages (RAPL); NULL: it has none, or it was not told throughout
);

CREATE TABLE io (                  -- counters over the workload phase, by who counted
  run TEXT NOT NULL REFERENCES run(id),
  source TEXT NOT NULL,            -- 'iod' (block layer of the test host), 'twin' (the virtual drive), 'host' (module's own reading of /sys/block/X/stat); with an external journal each is the sum, and 'iod DRIVE' each drive's own
  reads INTEGER, read_bytes INTEGER, writes INTEGER, write_bytes INTEGER,
  flushes INTEGER, discards INTEGER, fua_writes INTEGER,
  journal_transactions INTEGER,
  PRIMARY KEY (run, source)
);

CREATE TABLE event (               -- append-only: what happened, in order
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  time_ns INTEGER NOT NULL,
  run TEXT,
  event TEXT NOT NULL,             -- created, status, resumed, finished, note
  detail TEXT NOT NULL             -- JSON
);
