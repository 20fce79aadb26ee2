-- fixedWindow of package step. A window is the number of a period since 1970; asked
-- is the one that floor and back are of.
CREATE OR REPLACE FUNCTION fastlimit.fixed_window(
  now bigint, kind smallint, unit bigint, most bigint, cost bigint, count bigint, floor bigint, back bigint, asked bigint, count_denied boolean,
  level bigint, last bigint, was_unit bigint, quiet bigint
) RETURNS fastlimit.outcome LANGUAGE plpgsql STABLE AS $$
DECLARE
  now_in  bigint := now / unit;
  units   bigint := 0;
  silent  bigint := 0; -- quiet as it is now
  moved   boolean := kind = 3;
  heard   boolean;
  charge  bigint;
  granted bigint := 0;
BEGIN
  IF was_unit = unit AND last >= now_in THEN
    units := level;
    moved := moved OR last > now_in; -- the clock has stepped back: no time has passed
    IF quiet = last AND quiet > 0 THEN
      silent := now_in;
    END IF;
  END IF;

  IF kind = 3 THEN
    silent := now_in;
  ELSE
    heard := silent = 0;
    IF kind = 2 THEN
      back := cost;
    END IF;
    IF back > 0 AND units > 0 AND (asked = 0 OR asked = now_in) THEN
      units := units - least(units, back);
      silent := now_in;
      moved := true;
    END IF;
    IF heard AND asked > 0 AND asked = now_in AND floor > units THEN
      units := floor;
      moved := true;
    END IF;
  END IF;

  IF kind <= 1 THEN
    granted := fastlimit.fits(units, most, cost, count);
  END IF;
  IF kind = 0 THEN
    charge := granted * cost;
    IF count_denied AND granted < count THEN
      charge := most - least(units, most); -- since one of them does not fit
    END IF;
    units := units + charge;
    moved := moved OR charge > 0;
  END IF;
  RETURN (granted, units, moved AND kind <> 1, units, 0, now_in, unit, silent, NULL::bigint[], unit - now % unit)::fastlimit.outcome;
END $$;

-- slidingWindow of package step. The answer has both counts, 26 bits each.
CREATE OR REPLACE FUNCTION fastlimit.sliding_window(
  now bigint, kind smallint, unit bigint, most bigint, cost bigint, count bigint, floor bigint, back bigint, asked bigint, count_denied boolean,
  level bigint, previous bigint, last bigint, was_unit bigint, quiet bigint
) RETURNS fastlimit.outcome LANGUAGE plpgsql STABLE AS $$
DECLARE
  now_in  bigint := now / unit;
  units   bigint := 0; -- in the window of now
  before  bigint := 0; -- in the one before
  silent  bigint := 0; -- quiet as it is now
  moved   boolean := kind = 3;
  heard   boolean;
  had     bigint;
  room    bigint;
  granted bigint := 0;
  lasts   bigint := unit - now % unit;
BEGIN
  IF was_unit = unit AND last + 1 >= now_in THEN
    IF last + 1 = now_in THEN
      before := level;
    ELSE
      before := previous;
      units := level;
      moved := moved OR last > now_in; -- the clock has stepped back
    END IF;
    IF quiet <= last THEN
      silent := quiet - CASE WHEN last > now_in THEN least(quiet, last - now_in) ELSE 0 END;
    END IF;
    IF silent + 1 < now_in THEN
      silent := 0;
    END IF;
  END IF;

  IF kind = 3 THEN
    silent := now_in;
  ELSE
    heard := silent = 0;
    had := units + before;
    IF kind = 2 THEN
      back := cost;
    END IF;
    IF back > 0 THEN
      IF asked = 0 OR asked = now_in THEN
        room := greatest(back - units, 0);
        units := greatest(units - back, 0);
        before := greatest(before - room, 0);
      ELSIF asked = now_in - 1 THEN
        before := greatest(before - back, 0);
      END IF;
      IF units + before < had THEN
        silent := now_in;
        moved := true;
      END IF;
    END IF;
    IF floor > 0 AND heard AND asked > 0 THEN
      -- See bucket.JoinCounts.
      had := units;
      room := units + before;
      IF asked = now_in THEN
        units := greatest(had, floor % 67108864);
        before := greatest(room, floor % 67108864 + floor / 67108864) - units;
      ELSIF asked = now_in - 1 THEN
        before := greatest(room, floor % 67108864) - units;
      END IF;
      moved := moved OR units > had OR units + before > room;
    END IF;
  END IF;

  IF kind <= 1 THEN
    -- The period before counts by the share of it that one ending now would cover.
    granted := fastlimit.fits(units + (before * (62500 - now % unit / (unit / 62500)) + 62499) / 62500, most, cost, count);
  END IF;
  IF kind = 0 THEN
    had := units;
    units := units + granted * cost;
    IF count_denied AND units < most THEN
      room := most - units;
      IF cost > 0 AND count - granted > room / cost THEN
        units := most;
      ELSE
        units := units + (count - granted) * cost;
      END IF;
    END IF;
    moved := moved OR units > had;
  END IF;
  IF units > 0 OR silent = now_in THEN
    lasts := lasts + unit;
  END IF;
  RETURN (granted, before * 67108864 + units, moved AND kind <> 1, units, before, now_in, unit, silent, NULL::bigint[], lasts)::fastlimit.outcome;
END $$;
