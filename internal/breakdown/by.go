package breakdown

import (
	"bytes"
	"net/netip"
	"slices"
	"strconv"
)

// By is how requests are grouped.
type By uint8

// The ways to group requests.
const (
	Net By = iota
	Path
	Method
	Agent
	Status
	kinds
)

var names = [kinds]string{"net", "path", "method", "agent", "status"}

// String is the name of b.
func (b By) String() string { return names[b] }

// Names returns all names of a By.
func Names() []string { return slices.Clone(names[:]) }

// Parse is the inverse of [By.String].
func Parse(name string) (by By, ok bool) {
	i := slices.Index(names[:], name)
	return By(max(i, 0)), i >= 0
}

// Request is what is counted of a request. All bytes are borrowed for the call.
type Request struct {
	Client netip.Addr // invalid: not known
	Method []byte
	Path   []byte // without its query
	Agent  []byte // what User-Agent says
	Status int    // of the answer; 0: not known yet, see [Load.Answered]
	Denied bool   // by a rule, a list or a ban

	answer bool // only the status is set: the rest has been counted
}

// level is a table of a By. The levels of one By are adjacent, the finest first.
type level struct {
	by By
	// key appends the name of a request's group, which is then cut, or nothing if it has none.
	key func(dst []byte, q Request) []byte
	// parent returns the group of the next level that a group belongs to, or "" for none. It is nil for the
	// last level.
	parent func(name string) string
}

var levels = [...]level{
	{Net, prefixOf(32, 64), parentOf(24, 48)},
	{Net, prefixOf(24, 48), parentOf(16, 32)},
	{Net, prefixOf(16, 32), nil},
	{Path, func(dst []byte, q Request) []byte { return append(dst, cut(q.Path)...) }, folderOf},
	{Path, func(dst []byte, q Request) []byte { return appendFolder(dst, cut(q.Path)) }, nil},
	{Method, func(dst []byte, q Request) []byte { return append(dst, q.Method...) }, nil},
	{Agent, agent, nil},
	{Status, status, nil},
}

// longest is how many bytes of a name are kept. Browsers' user agents have about 120; those that differ only
// after that share a group.
const longest = 128

func cut(name []byte) []byte { return name[:min(len(name), longest)] }

// appendFolder appends the pattern of all paths with the same first segment and at least two segments.
func appendFolder(dst, path []byte) []byte {
	if len(path) < 2 {
		return dst
	}
	i := bytes.IndexByte(path[1:], '/')
	if i < 0 {
		return dst
	}
	return append(append(dst, path[:1+i]...), "/*"...)
}

func folderOf(path string) string { return string(cut(appendFolder(nil, []byte(path)))) }

// agent names requests without a User-Agent like access logs do.
func agent(dst []byte, q Request) []byte {
	if len(q.Agent) == 0 {
		return append(dst, '-')
	}
	return append(dst, q.Agent...)
}

func status(dst []byte, q Request) []byte {
	if q.Status == 0 {
		return dst
	}
	return strconv.AppendInt(dst, int64(q.Status), 10)
}

func prefixOf(v4, v6 int) func(dst []byte, q Request) []byte {
	return func(dst []byte, q Request) []byte {
		if p, err := q.Client.Prefix(bits(q.Client, v4, v6)); err == nil && q.Client.IsValid() {
			return p.AppendTo(dst)
		}
		return dst
	}
}

func parentOf(v4, v6 int) func(name string) string {
	return func(name string) string {
		p, err := netip.ParsePrefix(name)
		if err != nil {
			return ""
		}
		wider, err := p.Addr().Prefix(bits(p.Addr(), v4, v6))
		if err != nil {
			return ""
		}
		return wider.String()
	}
}

func bits(a netip.Addr, v4, v6 int) int {
	if a.Is4() {
		return v4
	}
	return v6
}
