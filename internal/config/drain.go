package config

var drainSettings = section{
	name: "drain", want: "settings, such as {delay: 1s, timeout: 10s}", where: "in drain, indented more than drain",
	settings: []setting{
		{name: "delay", field: "Delay", value: duration(0, maxTimeout, "1s", ""), def: "1s", doc: "time between the first 503 from `/readyz` and the end of accepting connections"},
		{name: "timeout", field: "Timeout", value: duration(minTimeout, maxTimeout, "10s", ""), def: "10s", doc: "time after that for requests in flight to finish"},
	},
}
