// Package descriptor has the limits of Envoy's rate limit service: which limit a request
// has is configured as a tree, and looked up by the descriptors that Envoy sends. Both
// follow [envoyproxy/ratelimit], so that its files work unchanged.
//
// # The tree
//
// A configuration has a domain and a tree of descriptors, each of which has a key and may
// have a value:
//
//	domain: shop
//	descriptors:
//	  - key: path                # any path
//	    descriptors:
//	      - key: user
//	        rate_limit: {unit: minute, requests_per_unit: 60}
//	  - key: path
//	    value: /login            # this one
//	    rate_limit: {unit: minute, requests_per_unit: 5}
//	  - key: path
//	    value: /files/*          # all that begin so
//	    rate_limit: {unit: second, requests_per_unit: 10}
//
// # Looking up
//
// A request's descriptor is a list of entries, (key, value). Each entry takes one step down
// the tree. Of the descriptors there it takes
//
//  1. the one whose key and value, joined by "_", are those of the entry,
//  2. else the first wildcard of the file, a key and value joined that contain "*", that
//     matches the entry's key and value joined; "*" stands for any text, also for none,
//  3. else the one of the entry's key that has no value.
//
// There is no way back: if a step leads to a descriptor that has nothing for the next entry,
// the request has no limit. Neither has it one if it ends before the limit or goes on behind
// it. As keys and values are joined before they are compared, (a_b, c) and (a, b_c) are the
// same here, as they are upstream.
//
// [envoyproxy/ratelimit]: https://github.com/envoyproxy/ratelimit
package descriptor
