package redisstore

import (
	"crypto/sha1" //nolint:gosec // the name by which Redis knows a script
	_ "embed"
	"encoding/binary"
	"encoding/hex"
	"math"

	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/bucket/memstore"
)

// The scripts, in parts. Each script is put together here once, so that Redis
// gets one self-contained text per operation.
var (
	//go:embed level.lua
	levelPart string
	//go:embed fits.lua
	fitsPart string
	//go:embed take.lua
	takePart string
	//go:embed peek.lua
	peekPart string
	//go:embed refund.lua
	refundPart string
	//go:embed store.lua
	storePart string
	//go:embed reset.lua
	resetPart string
)

const kinds = 4

// script is one self-contained Lua script and its SHA-1 in hex.
type script struct {
	name, source, sha string
}

type scripts [kinds]script

// production are the scripts as they run; tests replace the clock in a copy.
var production = newScripts(func(source string) string { return source })

func newScripts(edit func(string) string) *scripts {
	s := new(scripts)
	for kind, src := range map[bucket.Kind][2]string{
		bucket.Take:     {"take", levelPart + fitsPart + takePart + storePart},
		bucket.Peek:     {"peek", levelPart + fitsPart + peekPart},
		bucket.GiveBack: {"refund", levelPart + refundPart + storePart},
		bucket.EmptyOut: {"reset", resetPart},
	} {
		source := edit(src[1])
		sum := sha1.Sum([]byte(source)) //nolint:gosec // see above
		s[kind] = script{name: src[0], source: source, sha: hex.EncodeToString(sum[:])}
	}
	return s
}

// appendArgs appends EVALSHA of op to args, whose numbers it appends to buf.
// Six numbers in one argument: text would cost Redis as much as the arithmetic
// and this side an allocation each. extra are further ARGV.
func (s *scripts) appendArgs(args []any, buf []byte, key string, op *bucket.Op, extra []any) ([]any, []byte) {
	args = append(args, "evalsha", s[op.Kind].sha, 1, key)
	if op.Kind != bucket.EmptyOut {
		r := memstore.NewRequest(op)
		from := len(buf)
		for _, n := range [...]uint64{r.PerMicro, r.Unit, r.Limit, r.Cost, r.Count, r.Floor} {
			buf = binary.LittleEndian.AppendUint64(buf, math.Float64bits(float64(n)))
		}
		args = append(args, buf[from:len(buf):len(buf)])
	}
	return append(args, extra...), buf
}
