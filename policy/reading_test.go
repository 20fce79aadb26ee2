package policy

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// paths are all readings of a target, nil if it is refused.
func paths(target string) []string {
	var s Scratch
	var r Request
	if !s.readPath([]byte(target), &r) {
		return nil
	}
	all := []string{string(r.Path)}
	for _, p := range r.others {
		all = append(all, string(p))
	}
	return all
}

// What some server makes of a target, beside what AppendPath does, which comes first.
func TestReadings(t *testing.T) {
	t.Parallel()
	for target, want := range map[string][]string{
		"/login":                  {"/login"},
		"/file.html?a;b=/%2f":     {"/file.html"},
		"/%2flogin":               {"/%2flogin", "/login", "//login"},
		"/x%2F..%2flogin":         {"/x%2f..%2flogin", "/login", "/x/../login"},
		"/static/..%2flogin":      {"/static/..%2flogin", "/login", "/static/../login"},
		"/a/../login":             {"/login", "/a/../login"},
		"//login":                 {"/login", "//login", "/"},
		"//x/login":               {"/x/login", "//x/login", "/login"},
		`/\x/login`:               {`/\x/login`, "/x/login", "//x/login", "/login"},
		"///x?y":                  {"/x", "///x", "/"},
		"/a/..//b":                {"/b", "//b", "/a/..//b"},
		`/x\..\login`:             {`/x\..\login`, "/login", "/x/../login"},
		"/login;a=b/c":            {"/login;a=b/c", "/login/c"},
		"/login%3ba":              {"/login;a"},
		"/x;/..;y/login":          {"/x;/..;y/login", "/login", "/x/../login"},
		"/%2fadmin//../b":         {"/b", "/%2fadmin/b", "/admin/b", "/%2fadmin//../b", "//admin//../b", "//admin/b"},
		"/%2fadmin///..":          nil, // of four habits
		"/admin/..":               {"/", "/admin/", "/admin/.."},
		"/login/.":                {"/login/", "/login", "/login/."},
		"/login/x/..":             {"/login/", "/login", "/login/x/", "/login/x/.."},
		"/a//../b":                {"/b", "/a/b", "/a//../b"}, // to Node's URL as to Caddy
		"/login.":                 {"/login.", "/login"},
		"/login%20":               {"/login ", "/login"},
		"/login. .":               {"/login. .", "/login"},
		"/x/..%20/login":          {"/x/.. /login", "/login", "/x/../login"},
		"/%c0%afadmin":            {"/\xc0\xafadmin", "/%2fadmin", "/admin", "//admin"},
		"/%c0%ae%c0%ae/a":         {"/\xc0\xae\xc0\xae/a", "/a", "/../a"},
		"/\xc1\x81":               {"/\xc1\x81", "/A"},
		"/%c3%a9":                 {"/\xc3\xa9"},
		"/;x":                     {"/;x", "/"},
		"http://h/%2fa":           {"/%2fa", "/a", "//a"},
		"/a;b/..%2flogin":         {"/a;b/..%2flogin", "/login", "/a;b/../login", "/a/..%2flogin", "/a/../login"},
		"/%2f%5c;a%20/../%c0%ae.": nil, // of four habits and more
		"/a%2f%":                  nil,
		"/a;%zz":                  nil,
		"/%c0%80":                 nil,
		"/a;%00":                  nil,
	} {
		got := paths(target)
		if len(got) > 0 && got[0] != want[0] {
			t.Errorf("%q: %q is not the first", target, got[0])
		}
		slices.Sort(got)
		if slices.Sort(want); !slices.Equal(slices.Compact(got), want) {
			t.Errorf("%q: got %q, want %q", target, got, want)
		}
	}
}

// slowReading is appendReading by regular expressions, a step at a time.
func slowReading(target string, as reading) string {
	raw := target[:strings.IndexAny(target+"?", "?#")]
	decode := regexp.MustCompile(`%..`).ReplaceAllStringFunc
	byteOf := func(e string) string {
		var c byte
		fmt.Sscanf(e[1:], "%x", &c)
		return string([]byte{c})
	}
	if as&authority != 0 {
		slashes := "/"
		if as&backslash != 0 {
			slashes = `/\`
		}
		if rest := strings.TrimLeft(raw, slashes); len(raw)-len(rest) > 1 {
			if at := strings.IndexAny(rest, slashes); at >= 0 {
				raw = "/" + rest[at+1:]
			} else {
				raw = "/"
			}
		}
	}
	// Bytes that were escaped stand for themselves behind 0x01 until the end.
	s := decode(raw, func(e string) string { return "\x01" + byteOf(e) })
	if as&overlongUTF8 != 0 {
		for hi := range 2 {
			if !strings.Contains(s, string([]byte{byte(0xc0 + hi)})) {
				continue
			}
			for lo := range 64 {
				for _, long := range []string{"\x01%c\x01%c", "\x01%c%c", "%c\x01%c", "%c%c"} {
					long = strings.Replace(strings.Replace(long, "%c", string([]byte{byte(0xc0 + hi)}), 1), "%c", string([]byte{byte(0x80 + lo)}), 1)
					s = strings.ReplaceAll(s, long, "\x01"+string([]byte{byte(hi<<6 + lo)}))
				}
			}
		}
	}
	if as&servlet != 0 {
		s = regexp.MustCompile(`(^|[^\x01]);(\x01/|[^/])*`).ReplaceAllString(s, "$1")
	}
	if as&encodedSlash != 0 {
		s = strings.ReplaceAll(s, "\x01/", "/")
	}
	if as&backslash != 0 {
		s = strings.ReplaceAll(strings.ReplaceAll(s, "\x01\\", "\\"), "\\", "/")
	}
	s = strings.ReplaceAll(s, "\x01/", "\x01\x02")
	segments := strings.Split(s[1:], "/")
	var kept []string
	for i, g := range segments {
		g = strings.ReplaceAll(strings.ReplaceAll(g, "\x01\x02", "%2f"), "\x01", "")
		empty := g == ""
		last := i == len(segments)-1
		if as&trailingDots != 0 && (last && g != "." || g != "." && g != "..") {
			if g = strings.TrimRight(g, " "); last || g != "." && g != ".." {
				g = strings.TrimRight(g, ". ")
			}
		}
		switch {
		case as&order == unresolved:
			if g != "" || last || empty { // not what only dots and spaces were in
				kept = append(kept, g)
			}
		case g == "" && !last:
			if as&order != 0 && empty {
				kept = append(kept, g)
			}
		case g == "." || g == "..":
			if g == ".." {
				kept = kept[:max(0, len(kept)-1)]
			}
			if last && as&servlet == 0 {
				kept = append(kept, "")
			}
		default:
			kept = append(kept, g)
		}
	}
	path := "/" + strings.Join(kept, "/")
	if as&order == dotsFirst {
		path = regexp.MustCompile("/+").ReplaceAllString(path, "/")
	}
	return path
}

// Every set of habits reads as the slow way does, on random targets of what matters.
func TestReadingsAgainstOracle(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 1))
	pieces := []string{"/", "/", "%2f", `\`, "%5C", ";", "%3b", ".", "..", "%2e", "%20", "a", "b", "%c0%af", "\xc0%ae", "%c1%9c", "%c3%a9", "?x", "\xc0", "%41"}
	var tried [256]int
	for range 60_000 {
		target := "/"
		for range rng.IntN(9) {
			target += pieces[rng.IntN(len(pieces))]
		}
		as := reading(rng.IntN(256))
		got, matter, ok := appendReading(nil, []byte(target), as)
		if !ok {
			t.Fatalf("%q is refused", target)
		}
		if want := slowReading(target, as); string(got) != want {
			t.Fatalf("%q by %07b: got %q, want %q", target, as, got, want)
		}
		plain, _, _ := appendReading(nil, []byte(target), as&matter)
		if as&order == order && matter&dotsFirst == 0 && string(plain) != string(got) { // dots are resolved, and there is nothing to merge
			plain, _, _ = appendReading(nil, []byte(target), as&matter&^unresolved)
		}
		if string(plain) != string(got) {
			t.Fatalf("%q by %07b: %07b do not matter, and yet %q becomes %q", target, as, as&^matter, got, plain)
		}
		tried[as]++
		// All combinations of habits that matter are among the readings.
		if all := paths(target); all != nil && !slices.Contains(all, string(got)) {
			t.Fatalf("%q: %q by %07b is not among %q", target, got, as, all)
		} else if all == nil && bits.OnesCount8(uint8(as)) == 0 {
			tried[0]--
		}
	}
	if slices.Min(tried[:]) < 100 {
		t.Errorf("%v", tried)
	}
}

// A rule applies if any reading of the path matches, and exempts only if all do; keys by path
// are those of the reading in which most spellings are one.
func TestPathsAreReadInAllWays(t *testing.T) {
	t.Parallel()
	login := matcher{paths: compilePaths([]string{"/login", "/admin/*"})}
	except := compileMatch(Match{Not: Exemption{Paths: []string{"/static/*", "/healthz"}}})
	for target, want := range map[string]struct {
		applies, exempt bool
		key             string
	}{
		"/login":                 {true, false, "/login"},
		"/%2flogin":              {true, false, "/login"},
		"/x%2f..%2flogin":        {true, false, "/login"},
		"/login;jsessionid=1":    {true, false, "/login"},
		`/admin\x`:               {true, false, "/admin/x"},
		"/login//../static/x":    {false, false, "/static/x"},
		"//x/login":              {true, false, "/x/login"},
		"//x/static/a":           {false, false, "/x/static/a"},
		"/static/..//static/a":   {false, false, "/static/a"},
		"/static/x":              {false, true, "/static/x"},
		"/static/..%2flogin":     {true, false, "/login"},
		"/static/a%2fb":          {false, true, "/static/a/b"},
		"/static/x;/../../login": {true, false, "/login"},
		"/static%2fx":            {false, false, "/static/x"},
		"/healthz":               {false, true, "/healthz"},
		"/healthz.":              {false, false, "/healthz"},
		"/static//x":             {false, true, "/static/x"},
		"/other":                 {false, false, "/other"},
	} {
		var s Scratch
		r := Request{Method: []byte("GET")}
		if !s.readPath([]byte(target), &r) {
			t.Fatalf("%q is refused", target)
		}
		k := keyMaker{}
		got := new(Engine).part(&k, &keyPart{KeyPart: KeyPart{Kind: KeyPath}}, &r, &s)
		if login.match(&r) != want.applies || except.match(&r) == want.exempt || string(got) != want.key {
			t.Errorf("%q: applies %t, exempt %t, key %q, want %+v", target, login.match(&r), !except.match(&r), got, want)
		}
	}
}
