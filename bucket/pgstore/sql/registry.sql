-- Small sets of named texts that nodes share (bucket/registry). Every change has a version
-- above those before, and not below the clock. Texts end by themselves; what was deleted
-- stays for a while without a value.
CREATE TABLE IF NOT EXISTS fastlimit.registry (
  name    text   NOT NULL PRIMARY KEY,
  epoch   bigint NOT NULL, -- when it began
  version bigint NOT NULL  -- of its latest change
);
CREATE TABLE IF NOT EXISTS fastlimit.record (
  registry text   NOT NULL,
  name     bytea  NOT NULL,
  value    bytea  NOT NULL,
  version  bigint NOT NULL,
  ends     bigint NOT NULL, -- µs since 1970
  PRIMARY KEY (registry, name)
);

-- Makes the changes one after the other: who gets the lock sees all before.
CREATE OR REPLACE FUNCTION fastlimit.registry_lock() RETURNS void LANGUAGE sql VOLATILE AS
  'SELECT pg_advisory_xact_lock(1718380910, 2)';

CREATE OR REPLACE FUNCTION fastlimit.registry_next(registry text) RETURNS bigint LANGUAGE sql VOLATILE AS $$
  INSERT INTO fastlimit.registry AS r VALUES ($1, fastlimit.micros(), fastlimit.micros())
  ON CONFLICT (name) DO UPDATE SET (epoch, version) = ( -- a version that cannot be begins anew
    SELECT CASE WHEN fits THEN r.epoch ELSE fastlimit.micros() END, CASE WHEN fits THEN greatest(r.version + 1, fastlimit.micros()) ELSE fastlimit.micros() END
    FROM (SELECT r.version BETWEEN 0 AND 4503599627370495 AS fits) AS now
  ) RETURNING version
$$;

-- Whether there is room for one more of that name; makes some of what has ended or was deleted.
CREATE OR REPLACE FUNCTION fastlimit.registry_room(of text, named bytea, most bigint) RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  IF EXISTS (SELECT FROM fastlimit.record r WHERE r.registry = of AND r.name = named)
    OR (SELECT count(*) FROM fastlimit.record r WHERE r.registry = of) < most THEN
    RETURN true;
  END IF;
  DELETE FROM fastlimit.record r WHERE r.registry = of AND (r.ends <= fastlimit.micros() OR r.value = '');
  RETURN (SELECT count(*) FROM fastlimit.record r WHERE r.registry = of) < most;
END $$;

CREATE OR REPLACE FUNCTION fastlimit.registry_set(of text, named bytea, text bytea, number bigint, until bigint) RETURNS void LANGUAGE sql VOLATILE AS $$
  INSERT INTO fastlimit.record VALUES ($1, $2, $3, $4, $5)
  ON CONFLICT (registry, name) DO UPDATE SET value = excluded.value, version = excluded.version, ends = excluded.ends
$$;

-- Returns false if there are that many already.
CREATE OR REPLACE FUNCTION fastlimit.registry_put(of text, named bytea, text bytea, life bigint, most bigint) RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  PERFORM fastlimit.registry_lock();
  DELETE FROM fastlimit.record r WHERE r.registry = of AND r.ends <= fastlimit.micros();
  IF NOT fastlimit.registry_room(of, named, most) THEN
    RETURN false;
  END IF;
  PERFORM fastlimit.registry_set(of, named, text, fastlimit.registry_next(of), fastlimit.micros() + life);
  RETURN true;
END $$;

-- Returns whether there was one. Where there is none it is noted as deleted all the same, if there is
-- room: nodes may know of one that was lost.
CREATE OR REPLACE FUNCTION fastlimit.registry_delete(of text, named bytea, grave bigint) RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  until bigint;
  text bytea;
BEGIN
  PERFORM fastlimit.registry_lock();
  SELECT r.ends, r.value INTO until, text FROM fastlimit.record r WHERE r.registry = of AND r.name = named AND r.ends > fastlimit.micros();
  IF text = '' OR until IS NULL AND NOT fastlimit.registry_room(of, named, 10000) THEN
    RETURN false;
  END IF;
  PERFORM fastlimit.registry_set(of, named, '', fastlimit.registry_next(of), least(until, fastlimit.micros() + grave));
  RETURN until IS NOT NULL;
END $$;

-- Puts back what a node has known, where there is nothing of that name or an earlier version.
CREATE OR REPLACE FUNCTION fastlimit.registry_restore(of text, names bytea[], texts bytea[], numbers bigint[], lives bigint[], most bigint) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  changed boolean := false;
  room bigint; -- for names that are not there
  known bigint;
  one record;
BEGIN
  PERFORM fastlimit.registry_lock();
  room := most - (SELECT count(*) FROM fastlimit.record r WHERE r.registry = of);
  FOR one IN SELECT * FROM unnest(names, texts, numbers, lives) AS o(name, text, number, life) LOOP
    known := (SELECT r.version FROM fastlimit.record r WHERE r.registry = of AND r.name = one.name);
    CONTINUE WHEN known >= one.number;
    IF known IS NULL THEN
      IF room <= 0 THEN
        PERFORM fastlimit.registry_room(of, one.name, most);
        room := most - (SELECT count(*) FROM fastlimit.record r WHERE r.registry = of);
      END IF;
      CONTINUE WHEN room <= 0;
      room := room - 1;
    END IF;
    PERFORM fastlimit.registry_set(of, one.name, one.text, one.number, fastlimit.micros() + one.life);
    changed := true;
  END LOOP;
  IF changed THEN
    PERFORM fastlimit.registry_next(of);
  END IF;
END $$;
