
-- peek: as take, but nothing is charged or written.
return { fits(), level, now }
