package config

import (
	"io/fs"
	"os"
	"runtime"

	"github.com/fastlimit/fastlimit/internal/namedfile"
)

// machine is what is known of the machine that reads the file. The zero value knows
// nothing, so checks against it are skipped: a file can be parsed anywhere.
type machine struct {
	readFile func(path string) ([]byte, error) // nil: files are not read
	mode     func(path string) fs.FileMode     // 0: not known; beside readFile
	resolve  resolver

	appendable func(path string) error // nil: not checked

	replaceable func(path string) error // nil: not checked; beside mode
	memory      int64                   // bytes; 0 is unknown
}

// thisMachine is what Load checks against. A file for another machine, such as one that
// is validated in CI, may be refused for its memory or its files: validate it there.
func thisMachine() machine {
	mode := func(path string) fs.FileMode {
		info, err := os.Stat(path)
		if err != nil || runtime.GOOS == "windows" { // where it tells nothing
			return 0
		}
		return info.Mode()
	}
	return machine{readFile: namedfile.ReadFile, mode: mode, resolve: systemResolver, appendable: appendable, replaceable: replaceable, memory: memoryLimit(os.ReadFile)}
}
