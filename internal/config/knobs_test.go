package config

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/bucket/pgstore"
	"github.com/fastlimit/fastlimit/bucket/redisstore"
	"github.com/fastlimit/fastlimit/legacy"
	"github.com/fastlimit/fastlimit/policy"
	"github.com/fastlimit/fastlimit/server"
	"github.com/fastlimit/fastlimit/sync/gossip"
)

// notInTheFile are fields of the packages that no setting fills, with the reason.
var notInTheFile = map[string]string{
	"gossip.Config.BanEnded":       "the command tells the kernel",
	"gossip.Config.Answer":         "the command tells what is live of rules",
	"redisstore.Config.Logger":     "wired by the command",
	"gossip.Config.Logger":         "wired by the command",
	"fastlimit.Config.Store":       "opened by the command",
	"fastlimit.Config.Secret":      "derived from cluster.secret, else random",
	"fastlimit.Config.Shared":      "whether there is redis",
	"fastlimit.Config.Rules":       "policy.RuleSpec.Limit",
	"fastlimit.Config.Reserved":    "follows from the overrides",
	"limit.RuleConfig.MaxRate":     "policy.RateSource.Max",
	"limit.RuleConfig.Tiers":       "derived from overrides",
	"limit.RuleConfig.KeyKind":     "derived from key and match",
	"limit.RuleConfig.Thousandths": "derived from cost and cost_from",
	"server.Config.Version":        "of the binary",
	"server.Config.Tiers":          "those of live overrides",
	"server.Config.AdminTokens":    "admin.token_file and admin.tokens, read with admin",
}

// elsewhere are fields that a setting fills in another struct.
var elsewhere = map[string]string{
	"fastlimit.Config.StoreTimeout": "Redis.Timeout", "fastlimit.Config.Nodes": "Cluster.MaxNodes",
	"limit.RuleConfig.IPv4Prefix": "Key", "limit.RuleConfig.IPv6Prefix": "Key",
}

// filled are the fields that settings fill: of the section's struct by their
// path, and by the sections that they are in.
func filled() map[string]bool {
	all := map[string]bool{}
	for _, s := range sections {
		prefix := map[*section]string{&redisSettings: "Redis.", &clusterSettings: "Cluster."}[s]
		for _, f := range s.settings {
			if f.value.read != nil { // else it fills nothing
				all[s.name+":"+f.field], all[prefix+f.field] = true, true
			}
		}
	}
	return all
}

// Whatever an operator may tell a package, a file can tell it, or there is a
// reason why not.
func TestEveryKnobIsInTheFile(t *testing.T) {
	t.Parallel()
	known, seen := filled(), map[string]bool{}
	for _, k := range []struct {
		in     any
		prefix string // of the section and field
		wired  bool   // the command fills in what is no setting, such as functions
	}{
		{redisstore.Config{}, "redis:", false},
		{gossip.Config{}, "cluster:", false},
		{server.Connections{}, "connections:", false},
		{server.Drain{}, "drain:", false},
		{server.Upstream{}, "upstream:", false},
		{server.Listener{}, "listener:", false},
		{server.Denial{}, "denial:", false},
		{policy.Settings{}, "top:Policy.", false},
		{policy.Match{}, "match:", false},
		{policy.Override{}, "override:", false},
		{legacy.Limit{}, "legacy:", false},
		{legacy.Bucket{}, "bucket:", false},
		{fastlimit.RuleConfig{}, "rule:Limit.", false},
		{fastlimit.Config{}, "top:Limits.", true},
		{server.Config{}, "top:Server.", true},
	} {
		of := reflect.TypeOf(k.in)
		for f := range of.Fields() {
			name := of.String() + "." + f.Name
			seen[name] = true
			wired := f.Type.Kind() == reflect.Func || f.Type.Kind() == reflect.Interface || f.Type.Kind() == reflect.Slice && f.Type.Elem().Kind() == reflect.Interface ||
				f.Type.Kind() == reflect.Pointer && f.Type.Elem().Kind() == reflect.Struct
			switch {
			case !f.IsExported(), known[k.prefix+f.Name], known[elsewhere[name]], notInTheFile[name] != "":
			case wired && k.wired: // an adapter, not a knob
			default:
				t.Errorf("%s: no setting fills it: add one to a table, or the reason to notInTheFile", name)
			}
		}
	}
	for _, names := range []map[string]string{notInTheFile, elsewhere} {
		for name := range names {
			if !seen[name] {
				t.Errorf("%s is no field", name)
			}
		}
	}
}

// What the tables tell of a package's default is its default.
func TestDefaultsAreThoseOfThePackages(t *testing.T) {
	t.Parallel()
	compared := 0
	for _, k := range []struct {
		section *section
		def     any
	}{{&redisSettings, redisstore.Config{}.WithDefaults()}, {&postgresSettings, pgstore.Config{}.WithDefaults()}, {&clusterSettings, Cluster{Config: gossip.Config{}.WithDefaults(), TopTalkers: 8192}}} {
		want := reflect.ValueOf(k.def)
		for _, f := range k.section.settings {
			def := f.def
			if text := strings.Trim(f.shown, "`"); "`"+text+"`" == f.shown {
				def = text
			}
			if def == "" || f.required != "" || strings.Contains(def, " ") {
				continue
			}
			d := &decoder{lookupEnv: noEnv, places: map[string]*node{}}
			got := reflect.New(want.Type()).Elem()
			if !f.value.read(d, &node{kind: isText, text: def}, f.target(got)) {
				t.Errorf("%s: %s is no value of it: %v", f.name, def, d.errs)
			} else if a, b := f.target(got).Interface(), f.target(want).Interface(); !reflect.DeepEqual(a, b) {
				t.Errorf("%s: the table says %v, the package %v", f.name, a, b)
			}
			compared++
		}
	}
	if compared < 10 {
		t.Errorf("only %d defaults", compared)
	}
}

var (
	// A setting in a message: of several words, or with its section.
	settingName = regexp.MustCompile(`\b(?:(redis|postgres|cluster|connections|drain|match|rules)\.([a-z]+(?:_[a-z]+)*)|([a-z]+(?:_[a-z]+)+))\b`)

	// Names in messages that are of others.
	foreign = map[string]string{
		"auth_request": "nginx", "remote_addr": "nginx", "limit_req": "nginx", "limit_conn": "nginx", "limit_req_zone": "nginx", "limit_conn_zone": "nginx",
		"realip_remote_addr": "nginx", "proxy_protocol_addr": "nginx", "request_uri": "nginx", "vhost_combined": "Apache", "redis_version": "Redis", "retry_after": "a placeholder", "redis.md": "a page",
		"current_setting": "PostgreSQL", "server_version_num": "PostgreSQL", "server_version": "PostgreSQL", "pg_is_in_recovery": "PostgreSQL", "transaction_read_only": "PostgreSQL", "target_session_attrs": "PostgreSQL", "pg_blocking_pids": "PostgreSQL",
		"statement_timeout": "PostgreSQL", "max_connections": "PostgreSQL", "max_locks_per_transaction": "PostgreSQL", "pg_hba": "PostgreSQL", "postgres.md": "a page", "pg_advisory_xact_lock": "PostgreSQL", "pg_class": "PostgreSQL", "to_regprocedure": "PostgreSQL",
		"octet_length": "PostgreSQL", "transaction_isolation": "PostgreSQL", "default_query_exec_mode": "pgx", "cap_net_bind_service": "setcap",
	}
)

// No message names a setting that does not exist.
func TestMessagesNameSettingsThatExist(t *testing.T) {
	t.Parallel()
	known := map[string]bool{}
	for _, s := range sections {
		for _, f := range s.settings {
			known[f.name], known[s.name+"."+f.name] = true, true
		}
	}
	for _, name := range algorithms { // which messages suggest
		known[name] = true
	}
	found := 0
	for _, dir := range []string{".", "policy", "server", "bucket", "sync", "internal", "cmd/fastlimit", "middleware"} {
		err := filepath.WalkDir(filepath.Join("..", "..", dir), func(path string, e fs.DirEntry, err error) error {
			if err == nil && e.IsDir() && (dir == "." && path != filepath.Join("..", "..") || e.Name() == "testkit" || e.Name() == "rls") {
				return fs.SkipDir
			}
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.HasPrefix(e.Name(), "bench") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(n ast.Node) bool {
				l, ok := n.(*ast.BasicLit)
				if !ok || l.Kind != token.STRING {
					return true
				}
				text, _ := strconv.Unquote(l.Value)
				if !strings.Contains(text, " ") { // no sentence
					return true
				}
				for _, m := range settingName.FindAllStringSubmatch(text, -1) {
					if foreign[m[0]] != "" || strings.HasPrefix(m[0], "fastlimit_") { // a metric
						continue
					}
					if found++; !known[m[0]] {
						t.Errorf("%s: %q names %s, which is no setting", path, text, m[0])
					}
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
	if found < 50 {
		t.Errorf("only %d names found", found)
	}
}
