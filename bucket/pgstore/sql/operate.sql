-- The server's clock in µs since 1970.
CREATE OR REPLACE FUNCTION fastlimit.micros() RETURNS bigint LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
  SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
$$;

-- One operation on the bucket of each key, in their order and all at one reading of
-- the server's clock. step.Apply is the same in Go, bit for bit. Operations on the
-- same key are next to each other.
--
-- locks are hashes of the keys, ascending: every statement takes its locks in the
-- same order, so none waits for one that waits for it. They are advisory, so that
-- keys without a row are locked too, and denials write nothing. The clock is read,
-- and rows are, when all are held: so time never goes back from one operation on a
-- key to the next, an operation that had to wait too long is seen to be late, and no
-- update is lost at READ COMMITTED, where each statement in here sees what was
-- committed before it. Locks are released when the transaction has committed.
--
-- The settings have names mean what they do here, whatever the role's search_path,
-- and make every plan the same nested loop over the primary key, planned
-- once for a connection, whatever the statistics of a table that was empty then. And
-- a new connection reads the table's definition before it gets to the body, which a
-- lock on the table holds up: without lock_timeout, one backend more for each attempt.
CREATE OR REPLACE FUNCTION fastlimit.operate(
  locks int[], lock_timeout text, sent bigint, clock bigint, -- clock is null but in tests
  keys bytea[], kinds smallint[], algorithms smallint[], per_micros bigint[], units bigint[], limits bigint[], costs bigint[], counts bigint[],
  floors bigint[], backs bigint[], dates bigint[], dues bigint[], denials boolean[] -- dates are windows where those count
) RETURNS TABLE (granted bigint, reply bigint, late boolean, now bigint)
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp SET lock_timeout = '1s' SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
#variable_conflict use_column
DECLARE
  r      record;
  b      fastlimit.bucket; -- the row as it is
  s      fastlimit.bucket; -- what counts of it
  o      fastlimit.outcome;
  writes fastlimit.bucket[] := '{}';
  dirty  boolean := false; -- b is to be written
BEGIN
  -- A crash may lose the last fraction of a second, which the nodes restore by floors.
  PERFORM set_config('lock_timeout', lock_timeout, true), set_config('synchronous_commit', 'off', true);
  PERFORM pg_advisory_xact_lock(1718380909, l) FROM unnest(locks) AS l;
  now := coalesce(clock, fastlimit.micros());

  FOR r IN
    SELECT q.*, t.algorithm, t.level, t.previous, t.last, t.unit AS was_unit, t.quiet, t.times, t.expires
    FROM unnest(keys, kinds, algorithms, per_micros, units, limits, costs, counts, floors, backs, dates, dues, denials) WITH ORDINALITY
      AS q(key, kind, wanted, per_micro, unit, most, cost, count, floor, back, date, due, count_denied, n)
    LEFT JOIN fastlimit.bucket AS t ON t.key = q.key
    ORDER BY q.n
  LOOP
    IF b.key IS DISTINCT FROM r.key THEN
      IF dirty THEN
        writes := writes || b;
        dirty := false;
      END IF;
      b := (r.key, r.algorithm, r.level, r.previous, r.last, r.was_unit, r.quiet, r.times, r.expires);
    END IF;
    late := now > r.due OR now < sent AND r.due < 9007199254740991;
    IF late THEN
      granted := 0;
      reply := 0;
      RETURN NEXT;
      CONTINUE;
    END IF;

    IF r.kind = 3 OR b.algorithm IS DISTINCT FROM r.wanted THEN -- what another algorithm wrote counts as nothing
      s := (r.key, r.wanted, 0, 0, 0, 0, 0, NULL, 0);
    ELSE
      s := b;
    END IF;
    CASE r.wanted
    WHEN 0 THEN
      o := fastlimit.leaky_bucket(now, r.kind, r.per_micro, r.unit, r.most, r.cost, r.count, r.floor, r.back, r.date, s.level, s.last, s.unit, s.quiet);
    WHEN 2 THEN
      o := fastlimit.fixed_window(now, r.kind, r.unit, r.most, r.cost, r.count, r.floor, r.back, r.date, r.count_denied, s.level, s.last, s.unit, s.quiet);
    WHEN 3 THEN
      o := fastlimit.sliding_window(now, r.kind, r.unit, r.most, r.cost, r.count, r.floor, r.back, r.date, r.count_denied, s.level, s.previous, s.last, s.unit, s.quiet);
    WHEN 4 THEN
      o := fastlimit.sliding_log(now, r.kind, r.unit, r.most, r.cost, r.count, r.floor, r.back, r.date, s.quiet, s.times);
    END CASE;
    IF o.write THEN
      -- Rounded up, and as much as where expiry counts whole milliseconds.
      b := (r.key, r.wanted, o.level, o.previous, o.last, o.unit, o.quiet, o.times, now + (o.lasts / 1000 + 2) * 1000);
      dirty := true;
    END IF;
    granted := o.granted;
    reply := o.reply;
    RETURN NEXT;
  END LOOP;
  IF dirty THEN
    writes := writes || b;
  END IF;
  IF cardinality(writes) > 0 THEN
    INSERT INTO fastlimit.bucket SELECT w.* FROM unnest(writes) AS w
    ON CONFLICT (key) DO UPDATE SET algorithm = EXCLUDED.algorithm, level = EXCLUDED.level, previous = EXCLUDED.previous, last = EXCLUDED.last,
      unit = EXCLUDED.unit, quiet = EXCLUDED.quiet, times = EXCLUDED.times, expires = EXCLUDED.expires;
  END IF;
END $$;
