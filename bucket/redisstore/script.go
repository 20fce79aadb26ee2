package redisstore

import (
	"crypto/sha1" //nolint:gosec // the name by which Redis knows a script
	_ "embed"
	"encoding/hex"

	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/bucket/memstore"
)

var (
	//go:embed level.lua
	levelSource string
	//go:embed take.lua
	takeSource string
	//go:embed peek.lua
	peekSource string
	//go:embed refund.lua
	refundSource string
	//go:embed reset.lua
	resetSource string
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
		bucket.Take:     {"take", levelSource + takeSource},
		bucket.Peek:     {"peek", levelSource + peekSource},
		bucket.GiveBack: {"refund", levelSource + refundSource},
		bucket.EmptyOut: {"reset", resetSource},
	} {
		source := edit(src[1])
		sum := sha1.Sum([]byte(source)) //nolint:gosec // see above
		s[kind] = script{name: src[0], source: source, sha: hex.EncodeToString(sum[:])}
	}
	return s
}

// appendArgs appends EVALSHA of op to args. extra are further ARGV.
func (s *scripts) appendArgs(args []any, key string, op *bucket.Op, extra []any) []any {
	r := memstore.NewRequest(op)
	args = append(args, "evalsha", s[op.Kind].sha, 1, key)
	if op.Kind != bucket.EmptyOut {
		args = append(args, r.PerMicro, r.Unit, r.Limit, r.Cost, r.Count, r.Floor)
	}
	return append(args, extra...)
}
