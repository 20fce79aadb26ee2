
-- peek: charge and write nothing.
return { granted, level, now }
