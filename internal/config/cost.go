package config

// costFromTable fills policy.CostSource. The setting of proxy mode is there to be refused
// by its name.
func costFromTable() section {
	const example = "cost_from: {header: X-Cost}"
	return section{
		name: "cost_from", want: "a mapping such as {header: X-Cost}", where: "in cost_from, indented more than cost_from",
		oneOf: []string{"header", "response_header"}, example: "write for example " + example,
		settings: append([]setting{
			{name: "header", field: "Header", value: header(), doc: "the header in which trusted proxies name the cost of a request, overwriting what clients send"},
		}, reserved("response_header")...),
	}
}

// rateFromTable fills policy.RateSource.
func rateFromTable() section {
	const example = "write for example rate_from: {header: X-Limit, max: 1000/s}"
	return section{
		name: "rate_from", want: "a mapping such as {header: X-Limit, max: 1000/s}", where: "in rate_from, indented more than rate_from",
		settings: []setting{
			{name: "header", field: "Header", value: header(), required: example, doc: "the header in which trusted proxies name the rate of a client, overwriting what clients send"},
			{name: "max", field: "Max", value: rate(), required: example, doc: "the highest rate; a client for whom more is named gets this"},
		},
	}
}
