package redisstore

import (
	"crypto/sha1" // Redis names a script by its SHA-1
	_ "embed"
	"encoding/binary"
	"encoding/hex"
	"math"
	"strings"

	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/bucket/remote"
	"github.com/fastlimit/fastlimit/bucket/step"
	"github.com/redis/go-redis/v9"
)

// The script, and the functions in it for windows and logs.
var (
	//go:embed operate.lua
	operateLua string
	//go:embed window.lua
	windowLua string
	//go:embed log.lua
	logLua string
)

// operate is the whole script: Redis runs one text, which cannot load others.
var operate = strings.NewReplacer("= window or WINDOW_LUA", "= window or "+windowLua, "= log or LOG_LUA", "= log or "+logLua).Replace(operateLua)

// script is one self-contained Lua script and its SHA-1 in hex.
type script struct{ source, sha string }

// production is the script in use; tests replace its clock in a copy.
var production = newScript(operate)

func newScript(source string) *script {
	sum := sha1.Sum([]byte(source))
	return &script{source: source, sha: hex.EncodeToString(sum[:])}
}

// arguments is reused memory for the arguments of commands, which point into it
// until the next reset.
type arguments struct {
	args    []any
	names   []byte
	keys    []string
	numbers []byte
}

func newArguments() *arguments {
	return &arguments{args: make([]any, 0, 5*remote.MaxBatch), keys: make([]string, 0, remote.MaxBatch)}
}

func (a *arguments) reset() {
	a.args, a.names, a.keys, a.numbers = a.args[:0], a.names[:0], a.keys[:0], a.numbers[:0]
}

// command returns the arguments of one EVALSHA of all ops. Their numbers are one binary
// argument: as text a check would cost Redis 4.1 instead of 3.1 µs (docs/decisions/0006),
// and this side an allocation per number. dating dates the operations; extra is appended to
// ARGV.
func (a *arguments) command(sc *script, prefix string, ops []*bucket.Op, dating *remote.Dating, extra []any) []any {
	from, numbers, names := len(a.args), len(a.numbers), len(a.names)
	a.args = append(a.args, "evalsha", sc.sha, len(ops))
	a.numbers = appendFloats(a.numbers, dating.SentDate())
	var before common
	for _, op := range ops {
		a.names = append(append(a.names, prefix...), op.Key...)
		a.numbers = appendNumbers(a.numbers, op, dating.Date(op), &before)
	}
	all := string(a.names[names:]) // one allocation for all keys
	for _, op := range ops {
		n := len(prefix) + len(op.Key)
		a.keys = append(a.keys, all[:n])
		a.args = append(a.args, &a.keys[len(a.keys)-1]) // a pointer, as a string would be allocated
		all = all[n:]
	}
	a.args = append(a.args, a.numbers[numbers:len(a.numbers):len(a.numbers)])
	a.args = append(a.args, extra...)
	return a.args[from:len(a.args):len(a.args)]
}

// Added to the kind of an operation: extended if three more numbers follow, renumbered if
// its common numbers do.
const (
	extended   = 4
	renumbered = 8
)

// common is the numbers that an operation has in common with others of its rule: the
// ticks per µs or the algorithm, the unit, the limit, the cost and the count.
type common [5]uint64

// appendNumbers appends an operation. The script keeps the common numbers of the one
// before; those of the first differ from the zero value, as a unit is at least 1.
func appendNumbers(b []byte, op *bucket.Op, date uint64, before *common) []byte {
	// A bucket whose shape Redis cannot keep exactly can still be emptied.
	r := step.Request{Kind: op.Kind, PerMicro: 1, Unit: 1, Due: step.NoDue}
	if op.Shape.Portable() {
		r = step.NewRequest(op, date)
	}
	kind := byte(r.Kind)
	num, date := r.PerMicro, r.Date
	if r.Algorithm != bucket.LeakyBucket {
		num = otherAlgorithms + uint64(r.Algorithm)
	}
	if r.CountDenied {
		num += countDenied
	}
	more := r.Floor > 0 || r.Back > 0
	if r.Window > 0 {
		date, more = r.Window, more || r.Kind == bucket.Refund
	}
	if more {
		kind += extended
	}
	numbers := common{num, r.Unit, r.Limit, r.Cost, r.Count}
	if numbers != *before {
		kind += renumbered
	}
	b = appendFloats(append(b, kind), r.Due)
	if numbers != *before {
		b, *before = appendFloats(b, numbers[:]...), numbers
	}
	if more {
		b = appendFloats(b, r.Floor, r.Back, date)
	}
	return b
}

// Algorithms other than the leaky bucket are encoded, with otherAlgorithms added, in place
// of the ticks per µs, which are at most 2^16. For windows the window takes the place of
// the date.
const (
	otherAlgorithms = 1 << 20
	countDenied     = 1 << 20
)

func appendFloats(b []byte, numbers ...uint64) []byte {
	for _, n := range numbers {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(float64(n)))
	}
	return b
}

// answer is what the script replied: the outcome of each operation, in order.
type answer struct {
	results  string
	n        int
	now      int64 // µs of the server's clock
	failures []any // index from 1, message, and so on, by index
}

const resultBytes = 2 * 8 // granted and level

// parseAnswer reads the reply for n operations and reports whether it is one.
func parseAnswer(reply []any, n int) (a answer, ok bool) {
	if len(reply) == 0 || len(reply)%2 == 0 {
		return a, false
	}
	a.results, ok = reply[0].(string)
	if !ok || len(a.results) != n*resultBytes+8 {
		return a, false
	}
	now, ok := number(a.results[n*resultBytes:])
	a.n, a.now, a.failures = n, int64(now), reply[1:]
	last := int64(0)
	for i := 0; i < len(a.failures) && ok; i += 2 {
		index, isInt := a.failures[i].(int64)
		_, isText := a.failures[i+1].(string)
		ok = isInt && isText && index > last && index <= int64(n)
		last = index
	}
	return a, ok
}

// next returns the outcome of operation i. It must be called for 0, 1, 2 and so on.
func (a *answer) next(i int) (r bucket.Reply, err error) {
	if len(a.failures) > 0 && a.failures[0] == int64(i+1) {
		msg, _ := a.failures[1].(string)
		a.failures = a.failures[2:]
		return r, refusal(msg)
	}
	result := a.results[i*resultBytes:]
	var ok1, ok2 bool
	r.Granted, ok1 = number(result)
	r.Level, ok2 = number(result[8:])
	if !ok1 || !ok2 {
		return bucket.Reply{}, errAnswer
	}
	r.Now = uint64(a.now)
	return r, nil
}

// number decodes a float64 and reports whether it is an integer from 0 to 2^53 - 1.
func number(s string) (uint64, bool) {
	f := math.Float64frombits(binary.LittleEndian.Uint64([]byte(s[:8])))
	if !(f >= 0 && f < 1<<53 && f == math.Floor(f)) {
		return 0, false
	}
	return uint64(f), true
}

// refusal is the script's error for one operation of a batch.
type refusal string

var _ redis.Error = refusal("")

// Error implements error.
func (r refusal) Error() string { return string(r) }

// RedisError implements [redis.Error].
func (refusal) RedisError() {}
