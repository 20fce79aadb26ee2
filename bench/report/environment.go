package report

import (
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"runtime/debug"
	"strings"
	"time"
)

// CurrentEnvironment describes this machine and program; what it cannot find out is
// empty. The commit is the one that the program was built from, with "+dirty" if
// files had been changed. `go run` does not record it, and the one checked out in
// the current folder is taken.
func CurrentEnvironment(flags []string) Environment {
	return Environment{
		CPU: cpuModel(), Cores: runtime.NumCPU(), Kernel: kernel(), Go: runtime.Version(),
		Commit: commit(), Date: time.Now().UTC().Truncate(time.Second), Flags: withoutPasswords(flags),
		Versions: moduleVersions(),
	}
}

var userInfo = regexp.MustCompile(`://[^/@\s]*@`)

// withoutPasswords removes users and passwords from URLs, since reports are
// published.
func withoutPasswords(flags []string) []string {
	all := make([]string, len(flags))
	for i, f := range flags {
		all[i] = userInfo.ReplaceAllString(f, "://…@")
	}
	return all
}

var modelName = regexp.MustCompile(`(?m)^model name\s*:\s*(.*\S)`)

func cpuModel() string {
	info, _ := os.ReadFile("/proc/cpuinfo") // empty elsewhere
	if m := modelName.FindSubmatch(info); m != nil {
		return string(m[1])
	}
	return runtime.GOARCH
}

// kernel is the operating system where that is not Linux.
func kernel() string {
	b, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return runtime.GOOS
	}
	return "Linux " + strings.TrimSpace(string(b))
}

// commit is what the program was built from: figures without it cannot be checked.
func commit() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	revision, dirty := "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			revision = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = "+dirty"
		}
	}
	if revision == "" {
		return checkedOut()
	}
	return revision + dirty
}

// checkedOut is what git says of this folder.
func checkedOut() string {
	revision, err := exec.Command("git", "rev-parse", "HEAD").Output()
	if err != nil {
		return ""
	}
	changes, err := exec.Command("git", "status", "--porcelain", "--untracked-files=no").Output()
	if err != nil || len(changes) > 0 {
		return strings.TrimSpace(string(revision)) + "+dirty"
	}
	return strings.TrimSpace(string(revision))
}

// moduleVersions are those of the modules that this program links.
func moduleVersions() map[string]string {
	versions := map[string]string{}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			versions[m.Path] = m.Version
		}
	}
	return versions
}
