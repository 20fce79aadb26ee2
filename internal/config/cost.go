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
