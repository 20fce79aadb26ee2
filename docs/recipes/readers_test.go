package recipes_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// readers are web servers with the resources /login, /admin/ and below, /static/ and below,
// and OTHER for all else. They answer with a name of it.
var readers = map[string]func(t *testing.T) (addr string){
	"nginx": func(t *testing.T) string {
		program, dir := find(t, "nginx", "nginx-light"), t.TempDir()
		return runFront(t, func(addr string) *exec.Cmd {
			return exec.Command(program, "-p", dir, "-c", write(t, dir, fmt.Sprintf(`daemon off; master_process off; pid %s/pid; error_log stderr crit; events {}
				http { access_log off; keepalive_requests 1000000; server { listen %s; location / { return 200 OTHER; }
				location = /login { return 200 LOGIN; } location /admin/ { return 200 ADMIN; } location /static/ { return 200 STATIC; } } }`, dir, addr)))
		})
	},
	"caddy": func(t *testing.T) string {
		program, dir := find(t, "caddy", "caddy"), t.TempDir()
		return runFront(t, func(addr string) *exec.Cmd {
			cmd := exec.Command(program, "run", "--adapter", "caddyfile", "--config", write(t, dir, fmt.Sprintf("{\n\tadmin off\n\tauto_https off\n}\n"+
				"http://:%s {\n\tbind 127.0.0.1\n\thandle /login {\n\t\trespond LOGIN\n\t}\n\thandle /admin/* {\n\t\trespond ADMIN\n\t}\n\thandle /static/* {\n\t\trespond STATIC\n\t}\n\thandle {\n\t\trespond OTHER\n\t}\n}\n", portOf(t, addr))))
			cmd.Env = append(os.Environ(), "HOME="+dir, "XDG_DATA_HOME="+dir, "XDG_CONFIG_HOME="+dir)
			return cmd
		})
	},
	"Apache":                   apacheReader(""),
	"Apache, decoding slashes": apacheReader("AllowEncodedSlashes On\n"),
	"Apache, keeping slashes":  apacheReader("AllowEncodedSlashes NoDecode\n"),
	"Tomcat":                   tomcatReader(""),
	"Tomcat, decoding slashes": tomcatReader(`encodedSolidusHandling="decode" allowBackslash="true"`),
	"Node by text":             nodeReader("q.url.split('?')[0]"),
	"Node by URL":              nodeReader("new URL(q.url, 'http://h').pathname"),
	"Node, decoding":           nodeReader("decodeURIComponent(q.url.split('?')[0])"),
	"WSGI": func(t *testing.T) string {
		program, dir := find(t, "python3", "python3"), t.TempDir()
		return runFront(t, func(addr string) *exec.Cmd {
			return exec.Command(program, writeAs(t, dir, "app.py", wsgiReader), portOf(t, addr))
		})
	},
	"Go's ServeMux": func(t *testing.T) string {
		mux := http.NewServeMux()
		for path, body := range map[string]string{"/": "OTHER", "/login": "LOGIN", "/admin/": "ADMIN", "/static/": "STATIC"} {
			mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, body) })
		}
		return listening(t, mux)
	},
	"Go by prefix": func(t *testing.T) string { // nothing is resolved
		return listening(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch path := r.URL.Path; {
			case path == "/login":
				io.WriteString(w, "LOGIN")
			case strings.HasPrefix(path, "/admin/"):
				io.WriteString(w, "ADMIN")
			case strings.HasPrefix(path, "/static/"):
				io.WriteString(w, "STATIC")
			default:
				io.WriteString(w, "OTHER")
			}
		}))
	},
}

// absolute is what a target does not begin with when it reaches an application, which stands
// behind a proxy: that sends the path alone.
var absolute = map[string]string{"Node by text": "http://h", "Node by URL": "http://h", "Node, decoding": "http://h", "WSGI": "http://h"}

// apacheReader is Apache with this in its configuration.
func apacheReader(more string) func(t *testing.T) string {
	return func(t *testing.T) string {
		return runApacheWith(t, []string{"mpm_event", "authz_core", "rewrite"}, func(dir, addr string) string {
			for _, name := range []string{"LOGIN", "ADMIN", "STATIC", "OTHER"} {
				writeAs(t, dir, name, name)
			}
			return fmt.Sprintf("Listen %s\nDocumentRoot %s\nMaxKeepAliveRequests 0\n%sRewriteEngine On\n", addr, dir, more) +
				"RewriteRule ^/login$ /LOGIN [L]\nRewriteRule ^/admin/ /ADMIN [L]\nRewriteRule ^/static/ /STATIC [L]\nRewriteRule ^ /OTHER [L]\n"
		})
	}
}

// tomcatReader is Tomcat with this at its connector, and a page for each resource.
func tomcatReader(more string) func(t *testing.T) string {
	return func(t *testing.T) string {
		const home, servlets = "/usr/share/tomcat10", "<servlet><servlet-name>%[1]s</servlet-name><jsp-file>/WEB-INF/%[1]s.jsp</jsp-file></servlet>" +
			"<servlet-mapping><servlet-name>%[1]s</servlet-name><url-pattern>%[2]s</url-pattern></servlet-mapping>"
		program, dir := find(t, "java", "default-jre-headless"), t.TempDir()
		if _, err := os.Stat(home); err != nil {
			t.Fatal("this test needs Tomcat: apt-get install tomcat10")
		}
		for _, d := range []string{"conf", "temp", "webapps/ROOT/WEB-INF"} {
			if err := os.MkdirAll(filepath.Join(dir, d), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		app := ""
		for name, pattern := range map[string]string{"LOGIN": "/login", "ADMIN": "/admin/*", "STATIC": "/static/*", "OTHER": "/"} {
			page := name
			if strings.HasSuffix(pattern, "/*") { // which has /admin too
				page = fmt.Sprintf(`<%%= request.getPathInfo() == null ? "OTHER" : "%s" %%>`, name)
			}
			writeAs(t, dir, "webapps/ROOT/WEB-INF/"+name+".jsp", page)
			app += fmt.Sprintf(servlets, name, pattern)
		}
		writeAs(t, dir, "webapps/ROOT/WEB-INF/web.xml", "<web-app>"+app+"</web-app>")
		writeAs(t, dir, "conf/web.xml", "<web-app><servlet><servlet-name>jsp</servlet-name><servlet-class>org.apache.jasper.servlet.JspServlet</servlet-class></servlet></web-app>")
		return runFront(t, func(addr string) *exec.Cmd {
			writeAs(t, dir, "conf/server.xml", fmt.Sprintf(`<Server port="-1"><Service name="Catalina"><Connector address="127.0.0.1" port="%s" maxKeepAliveRequests="-1" %s/>
				<Engine name="Catalina" defaultHost="h"><Host name="h" appBase="webapps" autoDeploy="false"/></Engine></Service></Server>`, portOf(t, addr), more))
			return exec.Command(program, "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", home+"/bin/bootstrap.jar:"+home+"/bin/tomcat-juli.jar",
				"-Dcatalina.home="+home, "-Dcatalina.base="+dir, "-Djava.io.tmpdir="+dir+"/temp", "org.apache.catalina.startup.Bootstrap", "start")
		})
	}
}

// nodeReader is Node with an application that finds the path of a request q so.
func nodeReader(path string) func(t *testing.T) string {
	return func(t *testing.T) string {
		program, dir := find(t, "node", "nodejs"), t.TempDir()
		return runFront(t, func(addr string) *exec.Cmd {
			return exec.Command(program, writeAs(t, dir, "app.js", fmt.Sprintf(`
				require('http').createServer((q, r) => {
					let p
					try { p = %s } catch { r.statusCode = 400; return r.end() }
					r.end(p === '/login' ? 'LOGIN' : p.startsWith('/admin/') ? 'ADMIN' : p.startsWith('/static/') ? 'STATIC' : 'OTHER')
				}).listen(%s, '127.0.0.1')`, path, portOf(t, addr))))
		})
	}
}

const wsgiReader = `
import sys
from wsgiref.simple_server import WSGIRequestHandler, make_server

class Quiet(WSGIRequestHandler):
    def log_message(self, *args):
        pass

def app(env, start):
    start('200 OK', [('Content-Type', 'text/plain')])
    p = env['PATH_INFO']
    return [b'LOGIN' if p == '/login' else b'ADMIN' if p.startswith('/admin/') else b'STATIC' if p.startswith('/static/') else b'OTHER']

make_server('127.0.0.1', int(sys.argv[1]), app, handler_class=Quiet).serve_forever()
`

func listening(t *testing.T, h http.Handler) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}
