// Package ban remembers which clients of a rule were denied lately, and which of them are
// banned for that, in a table of fixed size. It reads no clock: times are arguments, on
// the time line of a limiter.
package ban
