package main

import (
	"bytes"
	"context"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fastlimit/fastlimit/internal/cli"
)

// Each of these asks a shell how the lines of $ASKED may go on, and prints a line "end" after
// the answers to one.

// askBash calls the function of the script as bash would: = is a word of its own.
const askBash = `source <(fastlimit completion bash)
while IFS= read -r line; do
  COMPREPLY=()
  read -ra COMP_WORDS <<<"${line//=/ = }"
  [[ $line == *' ' || $line == *= ]] && COMP_WORDS+=('')
  [[ $line == *= ]] && unset 'COMP_WORDS[-1]'
  COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
  [[ $(complete -p fastlimit) == *' -F _fastlimit '* ]] && _fastlimit
  printf '%s\n' "${COMPREPLY[@]}" end
done <<<"$ASKED"`

// askZsh types each line and a tab in a terminal, and prints what the completion system is given.
const askZsh = `zmodload zsh/zpty
zpty shell zsh -f -i
zpty -w shell "source setup"
zpty -r shell seen '*READY*'
for line in ${(f)ASKED}; do
  zpty -w -n shell $line$'\t'
  zpty -r shell seen '*FINISHED*'
  sort -u answers; print end
  : >answers
  zpty -w -n shell $'\C-u'
done`

const setupZsh = `autoload -U compinit && compinit -u -D
source <(fastlimit completion zsh)
compadd() {
  local -a hits
  builtin compadd -A hits "$@"
  (( $#hits )) && print -l -- $hits >>answers
  builtin compadd "$@"
}
finish() { comppostfuncs=(finish); print FINISHED }
comppostfuncs=(finish)
PS1=READY
`

const askFish = `source (fastlimit completion fish | psub)
for line in (string split \n $ASKED)
  complete -C "$line" | string replace -r '\t.*' ''
  echo end
end`

// completions asks a shell how each line may go on, in a folder with rules.yaml and pages/.
func completions(t *testing.T, shell string, lines []string) (answers []string) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"rules.yaml": "", "setup": setupZsh, "answers": ""} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "pages"), 0o700); err != nil {
		t.Fatal(err)
	}
	args := map[string][]string{"bash": {"--norc", "-c", askBash}, "zsh": {"-f", "-c", askZsh}, "fish": {"--no-config", "-c", askFish}}[shell]
	ctx, cancel := context.WithTimeout(t.Context(), hang)
	defer cancel()
	cmd := exec.CommandContext(ctx, shell, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(binary)+":"+os.Getenv("PATH"), "HOME="+dir, "TERM=vt100", "ASKED="+strings.Join(lines, "\n"))
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v: apt-get install %s", shell, err, shell)
	}
	all := strings.SplitAfter(string(out), "end\n")
	if len(all) != len(lines)+1 {
		t.Fatalf("%d answers to %d lines:\n%s", len(all)-1, len(lines), out)
	}
	for i, line := range lines {
		found := strings.Fields(strings.TrimSuffix(all[i], "end\n"))
		word := line[strings.LastIndexByte(line, ' ')+1:]
		flag := word[:strings.IndexByte(word, '=')+1]
		for i, f := range found { // fish shows the whole word
			found[i] = strings.TrimPrefix(strings.TrimSuffix(f, "/"), flag)
		}
		slices.Sort(found)
		answers = append(answers, strings.Join(found, " "))
	}
	return answers
}

// Every shell completes commands, flags, their values and paths.
func TestCompletion(t *testing.T) {
	severalPrograms(t)
	t.Parallel()
	want := map[string]string{
		"fastlimit ov":                       "override",
		"fastlimit override ":                "delete list set",
		"fastlimit help store ":              "init",
		"fastlimit serve -c x --log":         "--log-format",
		"fastlimit serve --listen x --li":    "",
		"fastlimit top --sort ":              "denied key rate share",
		"fastlimit serve --log-format=te":    "text",
		"fastlimit completion ":              "bash fish zsh",
		"fastlimit serve -c ru":              "rules.yaml",
		"fastlimit serve --config=ru":        "rules.yaml",
		"fastlimit validate ru":              "rules.yaml",
		"fastlimit validate --rls ":          "pages",
		"fastlimit replay -o json rul":       "rules.yaml",
		"fastlimit serve --redis ":           "",
		"fastlimit validate rules.yaml --rl": "--rls",
	}
	lines := slices.Sorted(maps.Keys(want))
	for _, shell := range []string{"bash", "zsh", "fish"} {
		t.Run(shell, func(t *testing.T) {
			t.Parallel()
			for i, got := range completions(t, shell, lines) {
				if line := lines[i]; got != want[line] {
					t.Errorf("%q: got %q, want %q", line, got, want[line])
				}
			}
		})
	}
}

// A flag is offered once, unless it may be given several times; hidden commands are not offered.
func TestCompletionOfferings(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		words      string
		want, miss string
	}{
		{"serve|-", "--config\tConfiguration file, or - for stdin\n", "--n\t"},
		{"serve|--config=x|--", "--listen", "--config"},
		{"top|--once|--", "--sort", "--once"},
		{"", "serve\tRun the decision service\n", "man\t"},
		{"serve|--|-", "", "--config"},
		{"reset|--admin|x|a|", "", "serve"},
		{"help|serve|--", "", "--config"},
	} {
		code, stdout, stderr := command(t, nil, append([]string{"__complete"}, strings.Split(tt.words, "|")...)...)
		if code != 0 || stderr != "" || !strings.Contains(stdout, tt.want) || strings.Contains(stdout, tt.miss) {
			t.Errorf("%s: exit %d, %q, %q; want %q, not %q", tt.words, code, stdout, stderr, tt.want, tt.miss)
		}
	}
	if code, stdout, stderr := command(t, nil, "completion", "tcsh"); code != cli.ExitUsage || stdout != "" || !strings.Contains(stderr, `"bash","zsh","fish"`) {
		t.Errorf("exit %d, %q, %q", code, stdout, stderr)
	}
}

// quiet runs a program, which must say nothing on stderr.
func quiet(t *testing.T, name string, args ...string) string {
	t.Helper()
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil || errs.Len() > 0 {
		t.Fatalf("%s %v: %v, %s", name, args, err, &errs)
	}
	return out.String()
}
