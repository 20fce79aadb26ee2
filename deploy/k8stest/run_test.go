package k8stest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/fastlimit/fastlimit/internal/testkit"
	"github.com/fastlimit/fastlimit/internal/testkit/redistest"
	core "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// A container on this machine: its files in a folder, its ports free ones.
type container struct {
	*core.Container
	root string
	env  []string
	app  string // the upstream
}

// place lays out the files of all volumes, so that every path of theirs begins in a folder.
func place(t *testing.T, all objects) *container {
	t.Helper()
	c := &container{Container: all.container(t), root: t.TempDir(), env: []string{}}
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "the app\n") }))
	t.Cleanup(app.Close)
	c.app = app.URL
	for _, m := range c.VolumeMounts {
		for name, content := range files(t, all, m.Name) {
			file := filepath.Join(c.root, m.MountPath, name)
			must(t, os.MkdirAll(filepath.Dir(file), 0o700))
			must(t, os.WriteFile(file, []byte(content), 0o600))
		}
	}
	for _, v := range c.Env {
		value := v.Value
		if v.ValueFrom != nil && v.ValueFrom.FieldRef.FieldPath == "status.podIP" {
			value = "127.0.0.1"
		}
		c.env = append(c.env, v.Name+"="+value)
	}
	return c
}

// rewrite changes the configuration to what this machine has, here and nowhere else: paths
// below the folder, free ports, servers of the test, and a drain that ends when it is told to.
func (c *container) rewrite(t *testing.T, config map[string]any, redis string) {
	t.Helper()
	config["listen"].([]any)[0].(map[string]any)["address"] = "127.0.0.1:0"
	if admin, ok := config["admin"].(map[string]any); ok {
		admin["address"] = "127.0.0.1:0"
	} else {
		config["admin"] = "127.0.0.1:0"
	}
	config["drain"].(map[string]any)["delay"] = "1h"
	if cluster, ok := config["cluster"].(map[string]any); ok {
		cluster["bind"] = strings.Replace(cluster["bind"].(string), ":7946", ":0", 1)
		cluster["join"] = []any{}
	}
	if upstream, ok := config["upstream"].(map[string]any); ok {
		upstream["url"] = []any{c.app}
	} else if _, ok := config["upstream"]; ok {
		config["upstream"] = c.app
	}
	if store, ok := config["redis"].(map[string]any); ok {
		if store["addresses"] != nil {
			store["addresses"] = []any{redis}
		}
		if file, ok := store["url_file"].(string); ok {
			must(t, os.WriteFile(filepath.Join(c.root, file), []byte("redis://"+redis+"/0"), 0o600))
		}
		if file, ok := store["password_file"].(string); ok {
			must(t, os.WriteFile(filepath.Join(c.root, file), []byte(password), 0o600))
		}
	}
	text, err := yaml.Marshal(config)
	must(t, err)
	for _, m := range c.VolumeMounts {
		text = []byte(strings.ReplaceAll(string(text), " "+m.MountPath+"/", " "+filepath.Join(c.root, m.MountPath)+"/"))
	}
	must(t, os.WriteFile(filepath.Join(c.root, "etc", "fastlimit", "fastlimit.yaml"), text, 0o600))
}

const password = "correct-horse"

// command runs the program as in the container.
func (c *container) command(args ...string) *exec.Cmd {
	for i, arg := range args {
		if path.IsAbs(arg) {
			args[i] = filepath.Join(c.root, arg)
		}
	}
	cmd := exec.Command(binary, args...)
	cmd.Env = c.env
	return cmd
}

// The configuration is valid as it is rendered, ports and all.
func TestConfigurationsAreValid(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, _ set, all objects) {
		c := place(t, all)
		file := filepath.Join(c.root, "etc", "fastlimit", "fastlimit.yaml")
		text, err := os.ReadFile(file)
		must(t, err)
		for _, m := range c.VolumeMounts {
			text = []byte(strings.ReplaceAll(string(text), " "+m.MountPath+"/", " "+filepath.Join(c.root, m.MountPath)+"/"))
		}
		must(t, os.WriteFile(file, text, 0o600))
		if out, err := c.command("validate", "/etc/fastlimit/fastlimit.yaml").CombinedOutput(); err != nil {
			t.Errorf("%v\n%s\n%s", err, out, text)
		}
	})
}

// The container runs, and its probe succeeds while it serves and fails while it drains.
func TestContainersRun(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s set, all objects) {
		c, redis := place(t, all), ""
		if slices.Contains(s.extras, "redis") {
			server := redistest.New(t)
			if config := configOf(t, all)["redis"].(map[string]any); config["password_file"] != nil {
				server.SetArgs("--requirepass", password)
				server.Auth(password)
			}
			server.Run()
			redis = server.Addr
		}
		c.rewrite(t, configOf(t, all), redis)
		if c.Command != nil {
			t.Fatal("the image has an entry point")
		}
		running := start(t, c.command(slices.Clone(c.Args)...))
		if limit := c.Resources.Limits.Memory().Value(); running.serving.MemoryLimit <= 0 || running.serving.MemoryLimit >= limit {
			t.Errorf("it may take %d bytes, and is killed at %d", running.serving.MemoryLimit, limit)
		}
		if out, err := c.probe(running.serving.Admin); err != nil {
			t.Errorf("serving: %v: %s", err, out)
		}
		running.answers(slices.Contains(s.extras, "proxy"))
		must(t, running.cmd.Process.Signal(syscall.SIGTERM))
		running.waitLog("draining")
		if out, err := c.probe(running.serving.Admin); err == nil || !strings.Contains(out, "not ready: draining") {
			t.Errorf("draining: %v: %s", err, out)
		}
	})
}

// probe runs what the kubelet does, at the address where admin is.
func (c *container) probe(admin string) (out string, err error) {
	probe := c.ReadinessProbe
	if probe.Exec == nil || probe.Exec.Command[0] != "/bin/fastlimit" || c.LivenessProbe != nil || c.StartupProbe != nil {
		return "", fmt.Errorf("probes %v", c.Container)
	}
	b, err := c.command(append(slices.Clone(probe.Exec.Command[1:]), "--admin", admin)...).CombinedOutput()
	return string(b), err
}

// running is a program that serves.
type running struct {
	t       *testing.T
	cmd     *exec.Cmd
	lines   chan string
	serving struct {
		Listen, Admin string
		MemoryLimit   int64 `json:"memory_limit"`
	}
}

func start(t *testing.T, cmd *exec.Cmd) *running {
	t.Helper()
	r := &running{t: t, cmd: cmd, lines: make(chan string, 10_000)}
	stderr, err := cmd.StderrPipe()
	must(t, err)
	must(t, redistest.StartLocked(cmd))
	var log testkit.Log
	go func() {
		defer close(r.lines)
		for s := bufio.NewScanner(stderr); s.Scan(); {
			fmt.Fprintln(&log, s.Text())
			r.lines <- s.Text()
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		for range r.lines {    // until the log has ended
		}
		_ = cmd.Wait() // it was killed
		if t.Failed() {
			t.Logf("its log:\n%s", log.String())
		}
	})
	must(t, json.Unmarshal([]byte(r.waitLog("fastlimit is serving")), &r.serving))
	return r
}

// waitLog returns the next line of the log that holds a text.
func (r *running) waitLog(text string) string {
	r.t.Helper()
	for line := range r.lines {
		if strings.Contains(line, text) {
			return line
		}
	}
	r.t.Fatalf("it ended and never logged %q", text)
	return ""
}

// answers checks that a request is admitted, and is passed on by a proxy.
func (r *running) answers(proxy bool) {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), http.MethodGet, "http://"+r.serving.Listen+"/", http.NoBody)
	must(r.t, err)
	resp, err := http.DefaultClient.Do(req)
	must(r.t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	must(r.t, err)
	if want := map[bool]string{true: "the app\n"}[proxy]; resp.StatusCode != http.StatusOK || string(body) != want {
		r.t.Errorf("%s, %q", resp.Status, body)
	}
}
