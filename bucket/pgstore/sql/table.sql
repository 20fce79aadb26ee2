-- Schema version 2 of fastlimit's exact tier. Run by `fastlimit store init`, or by
-- hand with psql -1 -f; see docs/postgres.md. It may be run again.
CREATE SCHEMA IF NOT EXISTS fastlimit;

-- One row per client that is suspected of exceeding a limit. All numbers are
-- integers from 0 to 2^53 - 1, as in every store; times are µs since 1970. Rows are
-- updated in place where a page has room (HOT): so the only index is the key's, and
-- pages are left partly empty.
CREATE TABLE IF NOT EXISTS fastlimit.bucket (
  key       bytea    NOT NULL PRIMARY KEY,
  algorithm smallint NOT NULL CHECK (algorithm IN (0, 2, 3, 4)), -- that wrote the row: leaky bucket, fixed window, sliding window, sliding log
  level     bigint   NOT NULL CHECK (level BETWEEN 0 AND 4503599627370496), -- ticks at last; of a window its count
  previous  bigint   NOT NULL CHECK (previous BETWEEN 0 AND 67108863), -- of a sliding window the count of the one before
  last      bigint   NOT NULL CHECK (last BETWEEN 0 AND 9007199254740991), -- when it was written; of a window its number
  unit      bigint   NOT NULL CHECK (unit BETWEEN 0 AND 9007199254740991), -- ticks of a unit, or µs of the period
  quiet     bigint   NOT NULL CHECK (quiet BETWEEN 0 AND 9007199254740991), -- until when floors are ignored, or the window in which they are
  times     bigint[] CHECK (cardinality(times) <= 4096), -- of a sliding log, the oldest first
  expires   bigint   NOT NULL -- from when on the row says no more than none would
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.2);
