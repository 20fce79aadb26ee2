package pgstore

import (
	"testing"

	"github.com/fastlimit/fastlimit/internal/testkit/redistest"
)

// reloaded opens a store, has it work for a while, and checks that nothing was lost or
// charged twice, and that nothing failed.
func (s *site) reloaded(t *testing.T, c Config) {
	t.Helper()
	s.do("TRUNCATE fastlimit.bucket")
	store := mustOpen(t, c)
	load := startLoad(t, store)
	load.progress("works")
	load.end()
	load.audit(s.server, false)
	if load.failed() != 0 {
		t.Errorf("%d operations failed: %v", load.failed(), store.Stats().Errors)
	}
	if _, err := store.driver.pruneStep(t.Context(), 0); err != nil {
		t.Errorf("pruning: %v", err)
	}
}

// Whatever an administrator sets for the role of the nodes, the function does its work
// in the same way.
func TestSettingsOfTheRole(t *testing.T) {
	t.Parallel()
	at := newSite(t)
	at.server.Do(`CREATE SCHEMA evil; GRANT USAGE ON SCHEMA evil TO node;
		CREATE FUNCTION evil.cardinality(anyarray) RETURNS int LANGUAGE sql AS 'SELECT 0';
		CREATE FUNCTION evil.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS 'SELECT ''epoch''::timestamptz';
		CREATE FUNCTION evil.less(bigint, bigint) RETURNS boolean LANGUAGE sql AS 'SELECT false';
		CREATE OPERATOR evil.> (LEFTARG = bigint, RIGHTARG = bigint, FUNCTION = evil.less)`)
	for _, setting := range []string{
		"search_path = evil, pg_catalog", "default_transaction_isolation = 'repeatable read'", "default_transaction_isolation = serializable",
		"lock_timeout = 1", "plan_cache_mode = force_custom_plan", "jit_above_cost = 0", "enable_indexscan = off",
		"bytea_output = escape", `"DateStyle" = 'German'`, "client_encoding = 'LATIN1'", "extra_float_digits = -15", "row_security = off",
		"standard_conforming_strings = off", "synchronous_commit = remote_apply", "client_min_messages = debug5", "array_nulls = off",
	} {
		t.Run(setting, func(t *testing.T) {
			at.server.Do("ALTER ROLE node RESET ALL; ALTER ROLE node SET " + setting)
			at.reloaded(t, patient(at.url()))
		})
	}
}

// All ways of pgx to send a statement work: poolers in front may need one of them.
func TestQueryModes(t *testing.T) {
	t.Parallel()
	at := newSite(t)
	for _, mode := range []string{"cache_statement", "cache_describe", "describe_exec", "exec", "simple_protocol"} {
		t.Run(mode, func(t *testing.T) {
			at.reloaded(t, patient(at.url()+"&default_query_exec_mode="+mode))
		})
	}
}

// A function that answers what it should not fails the operations, whatever that is, and
// the store recovers by itself when the function is as it was.
func TestWrongAnswers(t *testing.T) {
	t.Parallel()
	at := newSite(t)
	c := brisk(at.url(), new(logs))
	c.Timeout = patient("").Timeout // many rows take time
	s := openBrisk(t, c)
	load := startLoad(t, s)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%+v", s.Stats())
		}
	})
	load.progress("works at first")
	signature := at.server.Do("SELECT pg_get_function_identity_arguments('fastlimit.operate'::regproc)")
	const numbers = "granted bigint, reply bigint, late boolean, now bigint"
	for name, wrong := range map[string]struct{ returns, body, class string }{
		"no rows":            {numbers, "SELECT 0::bigint, 0::bigint, false, 1::bigint WHERE false", "protocol"},
		"more rows":          {numbers, "SELECT 0::bigint, 0::bigint, false, 1::bigint FROM generate_series(1, 100000)", "protocol"},
		"more than asked":    {numbers, "SELECT 9007199254740991, 0::bigint, false, 1::bigint FROM unnest(keys)", "protocol"},
		"a level beyond all": {numbers, "SELECT 0::bigint, 9223372036854775807, false, 1::bigint FROM unnest(keys)", "protocol"},
		"negative":           {numbers, "SELECT -1::bigint, 0::bigint, false, 1::bigint FROM unnest(keys)", "protocol"},
		"null":               {numbers, "SELECT NULL::bigint, 0::bigint, false, 1::bigint FROM unnest(keys)", "protocol"},
		"text":               {"granted text, reply text, late text, now text", "SELECT 'a', 'b', 'c', 'd' FROM unnest(keys)", "protocol"},
		"other columns":      {"level bigint", "SELECT 1::bigint FROM unnest(keys)", "schema"},
		"an error":           {numbers, "SELECT 1::bigint / 0, 0::bigint, false, 1::bigint FROM unnest(keys)", "corrupt"},
	} {
		before := s.Stats()
		at.server.Do("BEGIN; DROP FUNCTION fastlimit.operate; CREATE FUNCTION fastlimit.operate(" + signature + ") RETURNS TABLE (" + wrong.returns + ") LANGUAGE sql AS $$ " + wrong.body + " $$; COMMIT")
		redistest.Eventually(t, name+" shows", func() bool {
			st := s.Stats()
			return st.Errors[wrong.class] > before.Errors[wrong.class] && st.Trips > before.Trips
		})
		at.server.Do("BEGIN; DROP FUNCTION fastlimit.operate; " + operateSQL + "; COMMIT")
		redistest.Eventually(t, "the breaker closes after "+name, func() bool { return s.Stats().State == "closed" })
		load.progress("works after " + name)
	}
	load.end()
	load.audit(at.server, false)
}
