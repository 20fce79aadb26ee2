package command

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/fastlimit/fastlimit/internal/cli"
)

// productPackage is the main package of the binary to measure.
const productPackage = "github.com/fastlimit/fastlimit/cmd/fastlimit"

// product returns the fastlimit to measure: the one at --binary, or one that is
// built now and deleted by remove. It is the released program, which links none
// of bench, since it is compared with other servers.
func (b *commands) product(ctx context.Context) (path string, remove func(), err error) {
	if b.Binary != "" {
		if path, err = exec.LookPath(b.Binary); err != nil {
			return "", nil, fmt.Errorf("--binary: %w", err)
		}
		// Servers are started in folders of their own, where a relative path names nothing.
		path, err = filepath.Abs(path)
		return path, func() {}, err
	}
	dir, err := os.MkdirTemp("", "fastlimit-bench-")
	if err != nil {
		return "", nil, err
	}
	path = filepath.Join(dir, "fastlimit")
	err = cli.Signalled(ctx, cli.SignalHooks{Grace: grace}, func(ctx context.Context) error {
		build := exec.CommandContext(ctx, "go", "build", "-o", path, productPackage)
		if out, err := build.CombinedOutput(); ctx.Err() != nil {
			return ctx.Err()
		} else if err != nil {
			return fmt.Errorf("fastlimit cannot be built: %w; run bench in its repository, or name a binary with --binary\n%s", err, out)
		}
		return nil
	})
	if err != nil {
		os.RemoveAll(dir)
		return "", nil, err
	}
	return path, func() { os.RemoveAll(dir) }, nil
}
