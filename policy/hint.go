package policy

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/fastlimit/fastlimit"
)

// regexSigns matches text that occurs in regular expressions but hardly in paths. ".*"
// counts only after a slash or a bracket, as "/file.*" is a sensible pattern.
var regexSigns = regexp.MustCompile(`^\^|\$$|[/()\]]\.[*+]|^\.[*+]|\(\?|\(.*\|.*\)|\\[.dDwWsSb/?+*()\[\]-]|\[\^|\[[^\]]*\w-\w[^\]]*\]|\][*+?]|\)[*+?]`)

// anyText matches the parts of a regular expression that * can replace.
var anyText = regexp.MustCompile(`\((?:\?:)?\.[*+]\??\)|\.[*+]\??|\[[^\]]*\][*+]\??|\\[dwDWS][*+]\??`)

// param matches a path parameter as routers write it: /:id, /{id} or /<id>.
var param = regexp.MustCompile(`/(:[A-Za-z_]\w*|\{[A-Za-z_][\w.*]*\}|<[A-Za-z_][\w:]*>)(/|$)`)

// PathHint returns a warning about a valid pattern over paths that probably means
// something else: a regular expression, or a path parameter such as /:id. "" if there is
// none.
func PathHint(glob string) string {
	if glob == "/.*" { // not a regular expression, but the files whose names begin with a dot
		return ""
	}
	if regexSigns.MatchString(glob) {
		e := notRegex(glob)
		return e.Problem + "; " + e.Fix
	}
	if m := param.FindStringSubmatch(glob); m != nil {
		fix := glob
		for again := ""; again != fix; { // again, as neighbors share a slash and one pass finds every other
			again, fix = fix, param.ReplaceAllString(fix, "/*$2")
		}
		return fmt.Sprintf("path pattern %q: %s matches only itself, as only * stands for any text; write %q", glob, m[1], fix)
	}
	return ""
}

func notRegex(expression string) *fastlimit.FieldError {
	fix := "write for example /api/*, and several patterns in a list"
	if glob := globOf(expression); glob != "" {
		fix = fmt.Sprintf("write %q", glob)
	}
	return invalid("Match.Paths", fix, "path pattern %q: patterns are not regular expressions, only * stands for any text", expression)
}

// globOf translates a regular expression into a pattern. It returns "" if it cannot.
func globOf(expression string) string {
	glob, anchored := strings.CutPrefix(expression, "^")
	glob, ended := strings.CutSuffix(glob, "$")
	glob = anyText.ReplaceAllString(glob, "*")
	for _, c := range `/.-_` {
		glob = strings.ReplaceAll(glob, `\`+string(c), string(c))
	}
	if strings.ContainsAny(glob, `^$()[]{}|\+?`) {
		return ""
	}
	if !anchored && !strings.HasPrefix(glob, "/") {
		glob = "*" + glob
	}
	if anchored && !ended {
		glob += "*"
	}
	for strings.Contains(glob, "**") {
		glob = strings.ReplaceAll(glob, "**", "*")
	}
	if CheckPathPattern(glob) != nil || PathHint(glob) != "" {
		return ""
	}
	return glob
}

// methods are those of RFC 9110 and the IANA registry, and a few that caches and UPnP use.
var methods = strings.Fields(`GET HEAD POST PUT DELETE CONNECT OPTIONS TRACE PATCH QUERY PRI
	ACL BASELINE-CONTROL BIND CHECKIN CHECKOUT COPY LABEL LINK LOCK MERGE MKACTIVITY MKCALENDAR MKCOL
	MKREDIRECTREF MKWORKSPACE MOVE ORDERPATCH PROPFIND PROPPATCH REBIND REPORT SEARCH UNBIND UNCHECKOUT UNLINK
	UNLOCK UPDATE UPDATEREDIRECTREF VERSION-CONTROL PURGE BAN NOTIFY SUBSCRIBE UNSUBSCRIBE M-SEARCH`)

// KnownMethods returns the methods that clients are known to send.
func KnownMethods() []string { return slices.Clone(methods) }

// Covered returns the condition of Not that exempts everything that the rest of the match
// selects, so that the rule never applies: method, host, path or a header; "" if none does.
func (m *Match) Covered() string {
	switch n := &m.Not; {
	case covers(compileHosts(n.Hosts), m.Hosts, strings.ToLower):
		return "host"
	case covers(compilePaths(n.Paths), m.Paths, strings.Clone):
		return "path"
	case len(m.Methods) > 0 && !slices.ContainsFunc(m.Methods, func(method string) bool { return !slices.Contains(n.Methods, method) }):
		return "method"
	}
	for _, h := range m.Headers {
		for _, not := range m.Not.Headers {
			if strings.EqualFold(h.Name, not.Name) && (slices.ContainsFunc(not.Values, matchesAll) || covers(compilePaths(not.Values), h.Values, strings.Clone)) {
				return "header " + h.Name
			}
		}
	}
	return ""
}

// covers reports whether every glob matches only what one of the patterns matches too. A
// star in a glob counts as a byte that only a star can match.
func covers(by []pattern, globs []string, fold func(string) string) bool {
	for _, g := range globs {
		if !slices.ContainsFunc(by, func(p pattern) bool { return p.match([]byte(fold(g))) }) {
			return false
		}
	}
	return len(globs) > 0
}
