-- Deletes the expired rows of a few pages, and returns how many there were and
-- where to go on: 0 when the table has ended, null if somebody else is at it. Rows
-- that are locked are left for the next time: so it waits for nobody.
CREATE OR REPLACE FUNCTION fastlimit.prune(page bigint, pages bigint, clock bigint DEFAULT NULL, OUT deleted bigint, OUT next bigint)
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET lock_timeout = '1s' AS $$
DECLARE
  now bigint := coalesce(clock, fastlimit.micros());
BEGIN
  deleted := 0;
  IF NOT pg_try_advisory_xact_lock(1718380910, 0) THEN
    RETURN;
  END IF;
  PERFORM set_config('synchronous_commit', 'off', true);
  DELETE FROM fastlimit.bucket WHERE expires < now AND ctid = ANY (ARRAY(
    SELECT ctid FROM fastlimit.bucket
    WHERE ctid >= format('(%s,0)', page)::tid AND ctid < format('(%s,0)', page + pages)::tid AND expires < now
    FOR UPDATE SKIP LOCKED));
  GET DIAGNOSTICS deleted = ROW_COUNT;
  next := page + pages;
  IF next * current_setting('block_size')::bigint >= pg_relation_size('fastlimit.bucket') THEN
    next := 0;
  END IF;
END $$;

-- The version of all of the above.
CREATE OR REPLACE FUNCTION fastlimit.version() RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT 2';
