-- What one operation does: what it answers, and the row to write, if any.
DO $$ BEGIN
  CREATE TYPE fastlimit.outcome AS (
    granted bigint, reply bigint, write boolean,
    level bigint, previous bigint, last bigint, unit bigint, quiet bigint, times bigint[],
    lasts bigint -- µs for which the row says more than none would
  );
EXCEPTION WHEN duplicate_object THEN NULL;
END $$;

-- What is left at now of a level at date; 0 if date is in the future. The product
-- stays near the level, so that it does not overflow.
CREATE OR REPLACE FUNCTION fastlimit.aged(level bigint, date bigint, now bigint, per_micro bigint) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE WHEN now < date THEN 0 ELSE level - least(level, least(now - date, level / per_micro + 1) * per_micro) END
$$;

-- How many of count requests fit on top of level.
CREATE OR REPLACE FUNCTION fastlimit.fits(level bigint, most bigint, cost bigint, count bigint) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE WHEN level > most THEN 0 WHEN cost = 0 THEN count ELSE least(count, (most - level) / cost) END
$$;

-- leakyBucket of package step. Kinds are 0 take, 1 peek, 2 refund, 3 reset.
CREATE OR REPLACE FUNCTION fastlimit.leaky_bucket(
  now bigint, kind smallint, per_micro bigint, unit bigint, most bigint, cost bigint, count bigint, floor bigint, back bigint, date bigint,
  level bigint, last bigint, was_unit bigint, quiet bigint
) RETURNS fastlimit.outcome LANGUAGE plpgsql STABLE AS $$
DECLARE
  mark  bigint := least(now + 2 * (most / per_micro) + 2, 9007199254740991);
  moved boolean := kind = 3;
  heard boolean;
  raised bigint;
  granted bigint := 0;
BEGIN
  quiet := least(quiet, mark); -- beyond it if the clock has stepped back
  IF quiet <= now THEN
    quiet := 0;
  END IF;
  IF level > 0 THEN
    IF was_unit <> unit THEN -- the rate has changed: the units stay
      raised := least(pg_catalog.floor(level::float8 / was_unit::float8 * unit::float8), 4503599627370496)::bigint;
      moved := moved OR now < last;
      level := CASE WHEN now < last THEN raised ELSE fastlimit.aged(raised, last, now, per_micro) END;
    ELSIF now < last THEN
      moved := true; -- the clock has stepped back: no time has passed
    ELSE
      level := fastlimit.aged(level, last, now, per_micro);
    END IF;
  END IF;

  IF kind = 3 THEN
    quiet := mark;
  ELSE
    -- Refund first: the floor knows of it, but not of what others have given back.
    heard := quiet = 0;
    IF kind = 2 THEN
      back := cost;
    END IF;
    IF back > 0 AND level > 0 THEN
      level := level - least(level, back);
      quiet := mark;
      moved := true;
    END IF;
    IF floor > 0 AND heard AND date > 0 THEN
      raised := fastlimit.aged(floor, date, now, per_micro);
      IF raised > level THEN
        level := raised;
        moved := true;
      END IF;
    END IF;
  END IF;

  IF kind <= 1 THEN
    granted := fastlimit.fits(level, most, cost, count);
    IF kind = 0 AND granted > 0 AND cost > 0 THEN
      level := level + granted * cost;
      moved := true;
    END IF;
  END IF;
  IF quiet <= now THEN
    quiet := 0;
  END IF;
  RETURN (granted, level, moved AND kind <> 1, level, 0, now, unit, quiet, NULL::bigint[], greatest(level / per_micro, quiet - now))::fastlimit.outcome;
END $$;
