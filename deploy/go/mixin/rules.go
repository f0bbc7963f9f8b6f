package main

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"text/template/parse"
)

// rulesWithLabel makes groups of rules keep a label that all targets have: series that differ in it are never added,
// compared or joined. Alerts' annotations ask for that of the alert.
func rulesWithLabel(groups any, label string) (any, error) {
	constant, err := constants(groups)
	if err != nil {
		return nil, err
	}
	for _, rule := range rules(groups) {
		expr, err := constant.keep(rule["expr"].(string), label)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", rule["expr"], err)
		}
		rule["expr"] = expr
		annotations, _ := rule["annotations"].(map[string]any)
		for key, text := range annotations {
			changed, err := annotationWithLabel(text.(string), label)
			if err != nil {
				return nil, fmt.Errorf("%s of %s: %w", key, rule["alert"], err)
			}
			annotations[key] = changed
		}
		if dashboard, ok := annotations["dashboard"].(string); ok {
			choice := fmt.Sprintf("?var-cluster={{ $labels.%s | urlquery }}&", label)
			annotations["dashboard"] = strings.Replace(dashboard, "?", choice, 1)
		}
		if summary, ok := annotations["summary"].(string); ok {
			annotations["summary"] = summary + fmt.Sprintf("{{ with $labels.%s }} (%s {{ . }}){{ end }}", label, label)
		}
	}
	return groups, nil
}

func rules(groups any) []map[string]any {
	var all []map[string]any
	for _, group := range groups.([]any) {
		for _, rule := range group.(map[string]any)["rules"].([]any) {
			all = append(all, rule.(map[string]any))
		}
	}
	return all
}

// constants are the records of constants and of what follows from these alone.
func constants(groups any) (without, error) {
	found := without{}
	for {
		carrying := map[string]bool{}
		for _, rule := range rules(groups) {
			record, ok := rule["record"].(string)
			if !ok {
				continue
			}
			expr, err := promQL.ParseExpr(rule["expr"].(string))
			if err != nil {
				return nil, fmt.Errorf("%s: %w", record, err)
			}
			carries := found.carries(expr)
			if before, ok := carrying[record]; ok && before != carries {
				return nil, fmt.Errorf("only some series of %s have their targets' labels", record)
			}
			carrying[record] = carries
		}
		before := len(found)
		for record, carries := range carrying {
			if !carries {
				found[record] = true
			}
		}
		if len(found) == before {
			return found, nil
		}
	}
}

// What an alert's template begins with in Prometheus (rules/alerting.go).
const known = "{{$labels := .Labels}}{{$externalLabels := .ExternalLabels}}{{$externalURL := .ExternalURL}}{{$value := .Value}}"

var verb = regexp.MustCompile(`%%|%[^a-zA-Z]*[a-zA-Z]`)

// annotationWithLabel makes the queries of an annotation ask for the alert's own value of a label: wherever one is
// made by printf for a host, or for an instance.
func annotationWithLabel(text, label string) (string, error) {
	tree := parse.New("annotation")
	tree.Mode = parse.SkipFuncCheck
	tree, err := tree.Parse(known+text, "", "", map[string]*parse.Tree{})
	if err != nil {
		return "", err
	}
	insertions := map[int]string{}
	for _, command := range commands(tree.Root) {
		if err := printWithLabel(known+text, command, label, insertions); err != nil {
			return "", err
		}
	}
	return strings.TrimPrefix(inserted(known+text, insertions), known), nil
}

func printWithLabel(text string, command *parse.CommandNode, label string, insertions map[int]string) error {
	if function, ok := command.Args[0].(*parse.IdentifierNode); !ok || function.Ident != "printf" {
		return nil
	}
	format, ok := command.Args[1].(*parse.StringNode)
	if !ok {
		return errors.New("printf has no format to read")
	}
	for _, limited := range []string{"host", "instance"} {
		argument := 1
		for _, place := range verb.FindAllStringIndex(format.Quoted, -1) {
			if format.Quoted[place[0]:place[1]] == "%%" {
				continue
			}
			argument++
			at := strings.LastIndex(format.Quoted[:place[0]], limited+"=")
			if at < 0 || at+len(limited)+1 != place[0] {
				continue
			}
			value, ok := command.Args[argument].(*parse.VariableNode)
			if !ok || value.Ident[len(value.Ident)-1] != limited {
				return fmt.Errorf("%s= is not of a label %s in %s", limited, limited, command)
			}
			// Its Pos is that of its last field.
			begin := strings.LastIndex(text[:int(value.Pos)+1], "$")
			same := strings.Join(append(value.Ident[:len(value.Ident)-1:len(value.Ident)-1], label), ".")
			insertions[int(format.Pos)+at] = label + "=%q,"
			insertions[begin] = same + " "
		}
		if len(insertions) > 0 {
			return nil
		}
	}
	return nil
}

// commands are all in a template, those inside of others too.
func commands(node parse.Node) []*parse.CommandNode {
	var found []*parse.CommandNode
	pipe := func(node *parse.PipeNode) {
		if node != nil {
			for _, command := range node.Cmds {
				found = append(found, command)
				for _, argument := range command.Args {
					found = append(found, commands(argument)...)
				}
			}
		}
	}
	branch := func(node *parse.BranchNode) {
		pipe(node.Pipe)
		found = append(found, commands(node.List)...)
		if node.ElseList != nil {
			found = append(found, commands(node.ElseList)...)
		}
	}
	switch node := node.(type) {
	case *parse.ListNode:
		for _, inner := range node.Nodes {
			found = append(found, commands(inner)...)
		}
	case *parse.ActionNode:
		pipe(node.Pipe)
	case *parse.PipeNode:
		pipe(node)
	case *parse.IfNode:
		branch(&node.BranchNode)
	case *parse.RangeNode:
		branch(&node.BranchNode)
	case *parse.WithNode:
		branch(&node.BranchNode)
	}
	return found
}
