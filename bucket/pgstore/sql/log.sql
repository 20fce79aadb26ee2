-- slidingLog of package step. Of times, those that count are first to final.
CREATE OR REPLACE FUNCTION fastlimit.sliding_log(
  now bigint, kind smallint, unit bigint, most bigint, cost bigint, count bigint, floor bigint, back bigint, date bigint,
  quiet bigint, times bigint[]
) RETURNS fastlimit.outcome LANGUAGE plpgsql STABLE AS $$
DECLARE
  mark    bigint := least(now + 2 * unit, 9007199254740991);
  first   int := 1;
  final   int := coalesce(cardinality(times), 0);
  moved   boolean := kind = 3;
  heard   boolean;
  step    bigint;
  start   bigint;
  i       int;
  beyond  int;
  missing int;
  reply   bigint;
  granted bigint := 0;
  charge  bigint := 0;
  lasts   bigint := 0;
BEGIN
  quiet := least(quiet, mark); -- beyond it if the clock has stepped back
  IF quiet <= now THEN
    quiet := 0;
  END IF;
  IF times[final] > now THEN
    -- The clock has stepped back: no time has passed, and all go back by as much.
    step := times[final] - now;
    times := ARRAY(SELECT t - least(t, step) FROM unnest(times) WITH ORDINALITY AS u(t, n) ORDER BY n);
    moved := true;
  END IF;
  first := greatest(1, final - most + 1);
  beyond := final + 1; -- the first that counts is from first to beyond
  WHILE first < beyond LOOP
    i := (first + beyond) / 2;
    IF now - times[i] < unit THEN
      beyond := i;
    ELSE
      first := i + 1;
    END IF;
  END LOOP;

  IF kind = 3 THEN
    quiet := mark;
  ELSE
    heard := quiet = 0;
    IF kind = 2 THEN
      back := cost;
    END IF;
    IF back > 0 AND first <= final THEN
      final := greatest(final - back, first - 1);
      quiet := mark;
      moved := true;
    END IF;
    start := date - least(date, unit / 2);
    IF floor > 0 AND heard AND date > 0 AND now >= date AND now - start < unit THEN
      i := first;
      beyond := final + 1; -- the first from start on is from i to beyond
      WHILE i < beyond LOOP
        missing := (i + beyond) / 2;
        IF times[missing] >= start THEN
          beyond := missing;
        ELSE
          i := missing + 1;
        END IF;
      END LOOP;
      missing := floor - (final - i + 1);
      IF missing > 0 THEN
        -- As if all of them had been at the start: the first to be over. Older ones may
        -- be the same units: they move there before any is added.
        times := coalesce(times[first:greatest(first, i - missing) - 1], '{}') || array_fill(start, ARRAY[missing]) || coalesce(times[i:final], '{}');
        first := 1;
        final := cardinality(times);
        moved := true;
      END IF;
    END IF;
  END IF;

  IF kind <= 1 THEN
    granted := fastlimit.fits(final - first + 1, most, cost, count);
    IF kind = 0 THEN
      charge := granted * cost;
      moved := moved OR charge > 0;
    END IF;
  END IF;
  times := coalesce(times[first:final], '{}');
  IF charge > 0 THEN
    times := times || array_fill(now, ARRAY[charge::int]);
  END IF;
  reply := cardinality(times);
  IF reply > 0 THEN
    lasts := unit - (now - times[reply]);
  END IF;
  IF reply >= most THEN
    reply := most + unit - (now - times[1]); -- and how long until one fits
  END IF;
  IF quiet <= now THEN
    quiet := 0;
  END IF;
  RETURN (granted, reply, moved AND kind <> 1, 0, 0, 0, 0, quiet, times, greatest(lasts, quiet - now))::fastlimit.outcome;
END $$;
