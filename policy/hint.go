package policy

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/fastlimit/fastlimit"
)

// Signs of a regular expression that no path is likely to have. A dot before a
// star is one behind a slash or a bracket only: "/file.*" is a pattern.
var regexSigns = regexp.MustCompile(`^\^|\$$|[/()\]]\.[*+]|^\.[*+]|\(\?|\(.*\|.*\)|\\[.dDwWsSb/?+*()\[\]-]|\[\^|\[[^\]]*\w-\w[^\]]*\]|\][*+?]|\)[*+?]`)

// anyText are the parts of a regular expression that a star stands for.
var anyText = regexp.MustCompile(`\((?:\?:)?\.[*+]\??\)|\.[*+]\??|\[[^\]]*\][*+]\??|\\[dwDWS][*+]\??`)

// param is a segment that routers of other software take for any text.
var param = regexp.MustCompile(`/(:[A-Za-z_]\w*|\{[A-Za-z_][\w.*]*\}|<[A-Za-z_][\w:]*>)(/|$)`)

// PathHint tells what is valid in a pattern over paths and probably means
// something else: a regular expression, and a named segment as /:id. "" if
// nothing is.
func PathHint(glob string) string {
	if glob == "/.*" { // dot files
		return ""
	}
	if regexSigns.MatchString(glob) {
		e := notRegex(glob)
		return e.Problem + "; " + e.Fix
	}
	if m := param.FindStringSubmatch(glob); m != nil {
		fix := glob
		for again := ""; again != fix; { // segments that share a slash
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
	return &fastlimit.FieldError{
		Package: "fastlimit/policy", Field: "Match.Paths", Fix: fix,
		Problem: fmt.Sprintf("path pattern %q: patterns are not regular expressions, only * stands for any text", expression),
	}
}

// globOf is the pattern for what a regular expression means, "" if there is
// none.
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

// methods are those of RFC 9110 and of the registry of methods that clients
// send.
var methods = strings.Fields(`GET HEAD POST PUT DELETE CONNECT OPTIONS TRACE PATCH QUERY PRI
	ACL BASELINE-CONTROL BIND CHECKIN CHECKOUT COPY LABEL LINK LOCK MERGE MKACTIVITY MKCALENDAR MKCOL
	MKREDIRECTREF MKWORKSPACE MOVE ORDERPATCH PROPFIND PROPPATCH REBIND REPORT SEARCH UNBIND UNCHECKOUT UNLINK
	UNLOCK UPDATE UPDATEREDIRECTREF VERSION-CONTROL PURGE BAN NOTIFY SUBSCRIBE UNSUBSCRIBE M-SEARCH`)

// KnownMethods are the methods that clients are known to send.
func KnownMethods() []string { return append([]string(nil), methods...) }
