package main

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// What Grafana's query variables may be, with the expression in the middle.
var asked = regexp.MustCompile(`(?s)^(label_values\()(.*)(, *\w+\))$|^(query_result\()(.*)(\))$`)

const (
	dataSource = "${datasource:queryparam}" // in every link from one dashboard to another
	chosen     = "cluster"                  // the variable's name
)

// dashboardWithLabel gives a dashboard a variable for a label that all targets have, and makes all it shows depend on
// it.
func dashboardWithLabel(dashboard any, label string) (any, error) {
	matcher := fmt.Sprintf(`%s="$%s"`, label, chosen)
	if err := limitAll(dashboard, matcher); err != nil {
		return nil, err
	}
	templating := dashboard.(map[string]any)["templating"].(map[string]any)
	variables := templating["list"].([]any)
	added, err := clusters(variables, label)
	if err != nil {
		return nil, err
	}
	var with []any
	for _, variable := range variables {
		of := variable.(map[string]any)
		if of["type"] == "query" {
			text := of["query"].(string)
			parts := asked.FindStringSubmatch(text)
			if parts == nil {
				return nil, fmt.Errorf("variable %s: not known how to limit %s", of["name"], text)
			}
			expr, err := limit(parts[2]+parts[5], matcher)
			if err != nil {
				return nil, err
			}
			of["query"] = parts[1] + parts[4] + expr + parts[3] + parts[6]
		}
		with = append(with, of)
		if of["type"] == "datasource" {
			with = append(with, added)
		}
	}
	templating["list"] = with
	return dashboard, nil
}

// clusters is the variable: one cluster of those that the variable for platforms would be of.
func clusters(variables []any, label string) (map[string]any, error) {
	for _, variable := range variables {
		of := variable.(map[string]any)
		if of["name"] != "platform" {
			continue
		}
		made := map[string]any{"name": chosen, "label": "Cluster"}
		for _, key := range []string{"datasource", "query", "refresh", "skipUrlSync", "sort", "type"} {
			made[key] = of[key]
		}
		hosts, ok := strings.CutSuffix(made["query"].(string), ", platform)")
		if ok {
			made["query"] = hosts + ", " + label + ")"
			return made, nil
		}
	}
	return nil, errors.New("no variable has all platforms")
}

// limitAll changes the expressions and links in a part of a dashboard.
func limitAll(part any, matcher string) error {
	switch part := part.(type) {
	case []any:
		for _, item := range part {
			if err := limitAll(item, matcher); err != nil {
				return err
			}
		}
	case map[string]any:
		for key, value := range part {
			text, ok := value.(string)
			switch {
			case ok && key == "expr":
				expr, err := limit(text, matcher)
				if err != nil {
					return err
				}
				part[key] = expr
			case ok && key == "url":
				part[key] = strings.Replace(text, dataSource, dataSource+fmt.Sprintf("&${%s:queryparam}", chosen), 1)
			case !ok:
				if err := limitAll(value, matcher); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
