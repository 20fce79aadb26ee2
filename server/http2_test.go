package server

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/internal/testkit/redistest"
	"github.com/fastlimit/fastlimit/policy"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// withTLS gives the first listener a certificate.
func withTLS(t testing.TB) func(*Config) {
	files := redistest.NewCertificate(t, time.Now().Add(time.Hour))
	return func(c *Config) { c.Listeners[0].TLS = &TLS{CertFile: files.CertFile, KeyFile: files.KeyFile} }
}

// insecure is for clients: the certificate is not what is tested.
var insecure = tls.Config{InsecureSkipVerify: true} //nolint:gosec // see above

// httpsClient is a client of one connection that speaks HTTP/2, or HTTP/1.1 only.
func httpsClient(t testing.TB, http2 bool) *http.Client {
	tr := &http.Transport{DisableCompression: true, MaxConnsPerHost: 1, TLSClientConfig: insecure.Clone(), Protocols: new(http.Protocols)}
	tr.Protocols.SetHTTP2(http2)
	tr.Protocols.SetHTTP1(!http2)
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: 30 * time.Second}
}

// shownAnswer is what a client sees of an answer, but for its version and Date.
type shownAnswer struct {
	status int
	fields string
	body   string
}

func ask2(t testing.TB, c *http.Client, method, url, body string, fields ...string) shownAnswer {
	t.Helper()
	var from io.Reader
	if body != "" {
		from = struct{ io.Reader }{strings.NewReader(body)} // of a length that is not known
	}
	req, err := http.NewRequestWithContext(t.Context(), method, url, from)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range fields {
		name, value, _ := strings.Cut(f, ": ")
		req.Header.Add(name, value)
	}
	resp, err := c.Do(req)
	if err != nil {
		t.Fatalf("%s %s: %v", method, url, err)
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := http.ParseTime(resp.Header.Get("Date")); err != nil {
		t.Error(err)
	}
	resp.Header.Del("Date")
	var shown bytes.Buffer
	_ = resp.Header.Write(&shown)
	return shownAnswer{resp.StatusCode, shown.String(), string(got)}
}

// daily admits three requests of a client to /limited a day, so that answers do not depend on
// when they are asked for.
func daily() policy.Settings {
	return policy.Settings{Rules: []policy.RuleSpec{{
		Limit: fastlimit.RuleConfig{Name: "daily", Rate: fastlimit.Rate{N: 1, Per: 24 * time.Hour}, Burst: 3, Strict: true},
		Key:   []policy.KeyPart{{Kind: policy.KeyIP}}, Match: policy.Match{Paths: []string{"/limited"}},
	}}}
}

// Over HTTP/2 the same requests get the same answers, byte for byte, and are counted alike.
func TestHTTP2AnswersAsHTTP1(t *testing.T) {
	t.Parallel()
	var servers [2]*running
	var answers [2][]shownAnswer
	for i := range servers {
		s := start(t, daily(), withTLS(t), func(c *Config) {
			c.Listeners[0].Headers = []HeaderSet{RateLimitLegacyHeaders} // whole seconds of a day
			c.Listeners[0].HeadersOn = HeadersAlways
		})
		servers[i] = s
		c := httpsClient(t, i == 1)
		for _, q := range []struct{ method, path, body, field string }{
			{"GET", "/", "", ""}, {"GET", "/limited", "", ""}, {"POST", "/limited", "abc", ""}, {"PUT", "/limited?x=1", strings.Repeat("long ", 4000), ""},
			{"GET", "/limited", "", ""}, {"HEAD", "/limited", "", ""}, {"POST", "/limited", "x", ""}, {"DELETE", "/%6cimited", "", ""}, {"OPTIONS", "/limited", "", ""},
			{"GET", "/x", "", "X-Long: " + strings.Repeat("x", 9000)}, {"GET", "/limited", "", "Cookie: a=b"}, {"PATCH", "/", "y", "Content-Type: text/plain"},
			{"GET", "/v1/decide", "", ""},
		} {
			var fields []string
			if q.field != "" {
				fields = append(fields, q.field)
			}
			answers[i] = append(answers[i], ask2(t, c, q.method, "https://"+s.addr+q.path, q.body, fields...))
		}
	}
	for i, want := range answers[0] {
		want.fields = strings.ReplaceAll(want.fields, "Connection: close\r\n", "") // a bad request ends its connection, and only its stream
		if got := answers[1][i]; got != want {
			t.Errorf("request %d:\ngot  %+v\nwant %+v", i, got, want)
		}
	}
	if got, want := fmt.Sprint(servers[1].counts()), fmt.Sprint(servers[0].counts()); got != want {
		t.Errorf("counted %s, want %s", got, want)
	}
	if n := servers[1].http2.Stats(); n.Streams != uint64(len(answers[1])) || n.Connections != 1 || n.Resets != 0 {
		t.Errorf("%+v", n)
	}
	if n := servers[1].conns.Open(); n != 1 {
		t.Errorf("%d connections", n)
	}
}

// A client that floods over the streams of one connection gets its limit, not more, and another
// one its own.
func TestHTTP2FloodGetsTheLimit(t *testing.T) {
	t.Parallel()
	s := start(t, daily(), withTLS(t))
	c := httpsClient(t, true)
	var admitted, denied atomic.Int64
	var all sync.WaitGroup
	for range 64 {
		all.Go(func() {
			for range 20 {
				switch got := ask2(t, c, "GET", "https://"+s.addr+"/limited", ""); got.status {
				case 200:
					admitted.Add(1)
				case 429:
					denied.Add(1)
				}
			}
		})
	}
	all.Wait()
	if admitted.Load() != 3 || denied.Load() != 64*20-3 {
		t.Errorf("%d are admitted, %d denied", admitted.Load(), denied.Load())
	}
	other := dialFrom(t, "127.0.0.9", s.addr)
	f := newFramer(t, other)
	f.request(1, true, ":method", "GET", ":scheme", "https", ":path", "/limited", ":authority", "a")
	if got := f.answer(1); got != "200" {
		t.Errorf("another client gets %s", got)
	}
}

// framer is a client of HTTP/2 that sends what it is told.
type framer struct {
	*http2.Framer
	t    testing.TB
	conn net.Conn
	buf  bytes.Buffer
	enc  *hpack.Encoder
}

func newFramer(t testing.TB, raw net.Conn) *framer {
	t.Helper()
	config := insecure.Clone()
	config.NextProtos = []string{"h2"}
	c := tls.Client(raw, config)
	t.Cleanup(func() { c.Close() })
	f := &framer{Framer: http2.NewFramer(c, c), t: t, conn: c}
	f.enc = hpack.NewEncoder(&f.buf)
	f.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	if _, err := io.WriteString(c, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	if err := f.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	return f
}

// request begins a stream.
func (f *framer) request(id uint32, end bool, fields ...string) {
	f.buf.Reset()
	for i := 0; i < len(fields); i += 2 {
		_ = f.enc.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
	}
	_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: f.buf.Bytes(), EndHeaders: true, EndStream: end}) // the server may have closed
}

// answer waits for what becomes of a stream: a status, or how it or the connection ends.
func (f *framer) answer(id uint32) string {
	for {
		_ = f.conn.SetReadDeadline(time.Now().Add(20 * time.Second))
		fr, err := f.ReadFrame()
		if err != nil {
			return "closed"
		}
		switch fr := fr.(type) {
		case *http2.MetaHeadersFrame:
			if fr.StreamID == id {
				return fr.PseudoValue("status")
			}
		case *http2.RSTStreamFrame:
			if fr.StreamID == id {
				return fr.ErrCode.String()
			}
		case *http2.GoAwayFrame:
			return "GOAWAY " + fr.ErrCode.String()
		}
	}
}

// What would be framing in HTTP/1.1, or has two meanings there, is refused: nothing is
// admitted that a client of HTTP/1.1 could not have sent, and nothing behind it is read as
// another request.
func TestHTTP2Downgrade(t *testing.T) {
	t.Parallel()
	s := start(t, generous(), withTLS(t))
	get := []string{":method", "GET", ":scheme", "https", ":path", "/", ":authority", "a"}
	with := func(at int, value string, more ...string) []string {
		q := append(append([]string{}, get...), more...)
		q[at] = value
		return q
	}
	const method, path, authority = 1, 5, 7
	for name, c := range map[string]struct {
		fields []string
		body   string
		ok     bool
	}{
		"plain":                   {get, "", true},
		"with a body":             {get, "abc", true},
		"length and body":         {append(get, "content-length", "3"), "abc", true},
		"empty value":             {append(get, "x", ""), "", true},
		"blanks around a value":   {append(get, "x", " y "), "", true},
		"query":                   {with(path, "/?a=b:c"), "", true},
		"path with CRLF":          {with(path, "/ HTTP/1.1\r\nHost: b\r\n\r\nGET /x"), "", false},
		"path with a blank":       {with(path, "/a HTTP/1.1"), "", false},
		"path with a tab":         {with(path, "/a\tb"), "", false},
		"path with a NUL":         {with(path, "/a\x00b"), "", false},
		"path with a fragment":    {with(path, "/a#b"), "", false},
		"path beyond ASCII":       {with(path, "/\xc3\xa4"), "", false},
		"path without a slash":    {with(path, "a"), "", false},
		"absolute path":           {with(path, "http://b/"), "", false},
		"empty path":              {with(path, ""), "", false},
		"asterisk":                {with(path, "*"), "", false},
		"method with a blank":     {with(method, "GET /x HTTP/1.1"), "", false},
		"method and a blank":      {with(method, "GET "), "", false},
		"method with CRLF":        {with(method, "GET / HTTP/1.1\r\nX: y\r\n\r\nGET"), "", false},
		"method with a colon":     {with(method, "G:T"), "", false},
		"empty method":            {with(method, ""), "", false},
		"CONNECT":                 {[]string{":method", "CONNECT", ":authority", "a:443"}, "", false},
		"extended CONNECT":        {with(method, "CONNECT", ":protocol", "websocket"), "", false},
		"PRI":                     {with(method, "PRI"), "", false},
		"authority with CRLF":     {with(authority, "a\r\nX: y"), "", false},
		"authority with a user":   {with(authority, "b@a"), "", false},
		"authority with a blank":  {with(authority, "a b"), "", false},
		"authority with a path":   {with(authority, "a/b"), "", false},
		"no authority":            {get[:6], "", false},
		"host instead":            {append(append([]string{}, get[:6]...), "host", "a"), "", true},
		"the same host":           {append(get, "host", "a"), "", true},
		"another host":            {append(get, "host", "b"), "", false},
		"two hosts":               {append(get, "host", "a", "host", "a"), "", false},
		"value with CRLF":         {append(get, "x", "y\r\nZ: z"), "", false},
		"value with LF":           {append(get, "x", "y\nZ: z"), "", false},
		"value with CR":           {append(get, "x", "y\rz"), "", false},
		"value with NUL":          {append(get, "x", "y\x00z"), "", false},
		"value that folds":        {append(get, "x", "\r\n y"), "", false},
		"name with a colon":       {append(get, "x: y\r\nz", "1"), "", false},
		"name with a blank":       {append(get, "x ", "1"), "", false},
		"name in capitals":        {append(get, "X", "1"), "", false},
		"empty name":              {append(get, "", "1"), "", false},
		"late pseudo-header":      {append(get, "x", "y", ":path", "/b"), "", false},
		"two paths":               {append(append([]string{}, get...), ":path", "/b"), "", false},
		"chunked":                 {append(get, "transfer-encoding", "chunked"), "0\r\n\r\nGET /x HTTP/1.1\r\nHost: a\r\n\r\n", false},
		"connection":              {append(get, "connection", "keep-alive, x"), "", false},
		"upgrade":                 {append(get, "upgrade", "h2c"), "", false},
		"te":                      {append(get, "te", "chunked"), "", false},
		"te: trailers":            {append(get, "te", "trailers"), "", true},
		"length without a body":   {append(get, "content-length", "3"), "", false},
		"length and less":         {append(get, "content-length", "5"), "abc", false},
		"length and more":         {append(get, "content-length", "2"), "abcGET / HTTP/1.1\r\n\r\n", false},
		"two lengths":             {append(get, "content-length", "3", "content-length", "4"), "abc", false},
		"two equal lengths":       {append(get, "content-length", "3", "content-length", "3"), "abc", false},
		"list of lengths":         {append(get, "content-length", "3, 3"), "abc", false},
		"length with a sign":      {append(get, "content-length", "+3"), "abc", false},
		"length 0 without a body": {append(get, "content-length", "0"), "", true},
		"chunks within a body":    {get, "0\r\n\r\nGET /x HTTP/1.1\r\nHost: a\r\n\r\n", true},
		"odd expectation":         {append(get, "expect", "x"), "", false},
		"a head that is too long": {append(get, "x", strings.Repeat("x", 40000)), "", false},
	} {
		before := s.counts()[0]
		f := newFramer(t, dial(t, s.addr))
		f.request(1, c.body == "", c.fields...)
		if c.body != "" {
			_ = f.WriteData(1, true, []byte(c.body)) // it may have been refused by now
		}
		got := f.answer(1)
		if c.ok != (got == "200") || strings.HasPrefix(got, "5") {
			t.Errorf("%s: %s", name, got)
		}
		want := before
		if c.ok {
			want++
		}
		eventually(t, func() bool { f.conn.Close(); return s.conns.Open() == 0 })
		if n := s.counts()[0]; n != want && !strings.Contains(name, "length") {
			t.Errorf("%s: %d requests are admitted", name, n-before)
		}
	}
}

// Clients that give up what they ask for, at once or as soon as it is in progress, have few
// requests in progress at any time, get no more than their limit, and are cut off.
func TestHTTP2RapidReset(t *testing.T) {
	t.Parallel()
	for _, paced := range []bool{false, true} {
		set := daily()
		limit := &set.Rules[0].Limit
		limit.MaxWait, limit.Burst, limit.Rate.Per = time.Hour, 1, time.Hour // so that requests stay
		s := start(t, set, withTLS(t))
		f := newFramer(t, dial(t, s.addr))
		go func() { _, _ = io.Copy(io.Discard, f.conn) }() // a client that does not read is cut off for that
		most, begun := 0, uint64(0)
		for id := uint32(1); id < 20000; id += 2 {
			f.request(id, true, ":method", "GET", ":scheme", "https", ":path", "/limited", ":authority", "a")
			if begun++; paced {
				eventually(t, func() bool { return s.http2.Stats().Streams == begun || s.conns.Open() == 0 })
			}
			if f.WriteRSTStream(id, http2.ErrCodeCancel) != nil {
				break
			}
			most = max(most, s.conns.Streams())
		}
		eventually(t, func() bool { return s.conns.Open() == 0 })
		n := s.http2.Stats()
		if most > 100 || n.Streams > 600 || paced && (n.Resets < 400 || n.Resets > 600 || n.Cut != 1) {
			t.Errorf("paced %v: %d of %d requests at a time, %+v", paced, most, begun, n)
		}
		if counts := s.decide.Requests(); counts.Allowed > 1 || counts.Allowed+counts.Denied > n.Streams {
			t.Errorf("%+v, %+v", counts, n)
		}
		if s.conns.Streams() != 0 || n.Connections != 0 {
			t.Error("a stream is left")
		}
	}
}

// Connections and their streams end as those of HTTP/1 do: in a drain after the answer, and
// if they are idle or too slow at their timeouts; the client is told to go away.
func TestHTTP2Ends(t *testing.T) {
	t.Parallel()
	begin := func(s *running) *framer { return newFramer(t, dial(t, s.addr)) }
	get := []string{":method", "POST", ":scheme", "https", ":path", "/", ":authority", "a"}

	s := start(t, generous(), withTLS(t), func(c *Config) { c.Drain.Timeout = 20 * time.Second })
	busy, idle := begin(s), begin(s)
	busy.request(1, false, get...)
	idle.request(1, true, get...)
	if got := idle.answer(1); got != "200" {
		t.Fatal(got)
	}
	eventually(t, func() bool { return s.conns.Streams() == 1 })
	stopped := make(chan error, 1)
	go func() { stopped <- s.stop() }()
	if got := idle.answer(3); got != "GOAWAY NO_ERROR" {
		t.Errorf("an idle connection ends with %s", got)
	}
	idle.conn.Close()
	_ = busy.WriteData(1, true, []byte("abc"))
	if told, got := busy.answer(1), busy.answer(1); got != "200" || told != "GOAWAY NO_ERROR" {
		t.Errorf("a request in flight ends with %s, %s", told, got)
	}
	busy.conn.Close()
	if err := <-stopped; err != nil {
		t.Error(err)
	}

	slow := start(t, generous(), withTLS(t), func(c *Config) {
		c.Connections.HeaderTimeout, c.Connections.IdleTimeout = 200*time.Millisecond, 500*time.Millisecond
	})
	f := begin(slow)
	f.request(1, false, get...) // and no body
	f.request(3, true, get...)
	if a, b := f.answer(3), f.answer(1); a != "200" || b != "408" {
		t.Errorf("%s, and a body that does not come: %s", a, b)
	}
	if got := f.answer(5); got != "GOAWAY NO_ERROR" {
		t.Errorf("idle: %s", got)
	}
	eventually(t, func() bool { return slow.conns.Open() == 0 })
	if silent := begin(slow); silent.answer(1) != "closed" {
		t.Error("a connection without requests stays")
	}
}

// Where connections are nearly full a denied client is told to go away, and an idle connection
// makes room, as with HTTP/1; one with a request that is being answered does not.
func TestHTTP2MakesRoom(t *testing.T) {
	t.Parallel()
	s := start(t, daily(), withTLS(t), func(c *Config) { c.Connections.Max = 2 })
	get := func(path string) []string {
		return []string{":method", "GET", ":scheme", "https", ":path", path, ":authority", "a"}
	}
	var all [4]*framer
	for i := range all {
		all[i] = newFramer(t, dial(t, s.addr))
		all[i].request(1, true, get("/")...)
		if got := all[i].answer(1); got != "200" {
			t.Fatalf("connection %d: %s", i, got)
		}
	}
	eventually(t, func() bool { return s.conns.Open() == 2 && s.http2.Stats().Connections == 2 })
	if n := s.conns.Dismissed()["full"]; n != 2 {
		t.Errorf("%d made room", n)
	}
	last := all[3]
	id := uint32(3)
	for ; id < 13; id += 2 {
		last.request(id, true, get("/limited")...)
		if last.answer(id) != "200" {
			break
		}
	}
	if n := s.decide.Requests().Denied; n != 1 || id != 9 || s.conns.Dismissed()["denied"] != 1 {
		t.Errorf("%d are denied, the last is %d", n, id)
	}
	if got := last.answer(id + 2); got != "GOAWAY NO_ERROR" && got != "closed" { // it may have come before the denial
		t.Errorf("after a denial: %s", got)
	}
}

// http2: false leaves HTTP/1.1.
func TestHTTP2IsOff(t *testing.T) {
	t.Parallel()
	s := start(t, generous(), withTLS(t), func(c *Config) { c.Listeners[0].TLS.NoHTTP2 = true })
	if _, err := httpsClient(t, true).Get("https://" + s.addr + "/"); err == nil {
		t.Error("HTTP/2 is spoken")
	}
	if got := ask2(t, httpsClient(t, false), "GET", "https://"+s.addr+"/", ""); got.status != 200 {
		t.Errorf("%+v", got)
	}
}
