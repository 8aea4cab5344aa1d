-- SPDX-License-Identifier: GPL-3.0-or-later
-- What was done to each drive, by serial: var/drives.sqlite (WAL). Events are only ever added.
PRAGMA user_version = 1;

CREATE TABLE event (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  time_ns INTEGER NOT NULL,         -- controller UTC
  serial TEXT NOT NULL,
  event TEXT NOT NULL,              -- began, purged, filled, made, ended, preconditioned
  detail TEXT NOT NULL              -- JSON
);
CREATE INDEX event_of_drive ON event (serial, seq);
CREATE TRIGGER event_is_not_changed BEFORE UPDATE ON event
  BEGIN SELECT RAISE(ABORT, 'events are only ever added'); END;
CREATE TRIGGER event_is_not_removed BEFORE DELETE ON event
  BEGIN SELECT RAISE(ABORT, 'events are only ever added'); END;
