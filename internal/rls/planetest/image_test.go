//go:build image

package planetest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/fastlimit/fastlimit/internal/testkit/redistest"
)

// root is the folder with the image's files, laid out once.
var root string

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "planetest")
	if err == nil {
		defer os.RemoveAll(dir)
		root = filepath.Join(dir, "image")
		err = layOut(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

func layOut(dir string) error {
	if os.Getuid() != 0 {
		return errors.New("another root folder takes root: run make test-image as root")
	}
	if err := os.Chmod(dir, 0o755); err != nil { // folders of tests are closed to others
		return err
	}
	cmd := exec.Command("make", "--no-print-directory", "image-root", "DIR="+root)
	cmd.Dir = filepath.Join("..", "..", "..")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	return nil
}

// command runs the program as the image would: no other files, no rights, nothing to write to.
func command() *exec.Cmd {
	cmd := exec.Command("/bin/ratelimit")
	cmd.Dir, cmd.SysProcAttr = "/", &syscall.SysProcAttr{Chroot: root, Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	return cmd
}

const nobody = 65534

// redisFor is a Redis in which the test has to count something.
func redisFor(t *testing.T) string {
	t.Helper()
	server := redistest.Start(t)
	t.Cleanup(func() {
		if !t.Failed() && !strings.Contains(server.Do("KEYS", "shop_*"), "shop_") {
			t.Error("nothing was counted in Redis")
		}
	})
	return server.Addr
}

// TestNothingIsWritable in the image, for the user that it runs as.
func TestNothingIsWritable(t *testing.T) {
	t.Parallel()
	must(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if owner := info.Sys().(*syscall.Stat_t); owner.Uid == nobody || owner.Gid == nobody || d.Type() != fs.ModeSymlink && info.Mode().Perm()&0o002 != 0 {
			t.Errorf("%s can be written to", path)
		}
		return nil
	}))
}
