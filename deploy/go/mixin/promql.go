package main

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/parser/posrange"
)

var promQL = parser.NewParser(parser.Options{})

// query is an expression and where its tokens are: it is changed by insertions, so that its layout stays.
type query struct {
	text       string
	expr       parser.Expr
	tokens     []parser.Item
	insertions map[int]string
}

func read(text string) (*query, error) {
	expr, err := promQL.ParseExpr(text)
	if err != nil {
		return nil, err
	}
	parsed := &query{text: text, expr: expr, insertions: map[int]string{}}
	lexer := parser.Lex(text)
	for {
		var token parser.Item
		lexer.NextItem(&token)
		switch token.Typ {
		case parser.EOF, parser.ERROR: // the parser has accepted it
			return parsed, nil
		case parser.COMMENT:
		default:
			parsed.tokens = append(parsed.tokens, token)
		}
	}
}

// at is the index of the token that begins at a position.
func (q *query) at(position posrange.Pos) int {
	return slices.IndexFunc(q.tokens, func(token parser.Item) bool { return token.Pos == position })
}

func (q *query) is(index int, types ...parser.ItemType) bool {
	return index < len(q.tokens) && slices.Contains(types, q.tokens[index].Typ)
}

func (q *query) end(index int) int {
	return int(q.tokens[index].Pos) + len(q.tokens[index].Val)
}

// prepend adds an element to the list in the parentheses or braces that a token opens.
func (q *query) prepend(index int, element string) {
	if !q.is(index+1, parser.RIGHT_PAREN, parser.RIGHT_BRACE) {
		element += ", "
	}
	q.insertions[q.end(index)] = element
}

func (q *query) changed() string {
	return inserted(q.text, q.insertions)
}

// inserted is a text with others at some of its positions.
func inserted(text string, insertions map[int]string) string {
	var result strings.Builder
	done := 0
	for _, position := range slices.Sorted(maps.Keys(insertions)) {
		result.WriteString(text[done:position] + insertions[position])
		done = position
	}
	return result.String() + text[done:]
}

// without are the names of records that are constants, such as an objective's error budget: they have no label of a
// target.
type without map[string]bool

// carries is whether the series of an expression have the labels that all targets have, once every aggregation and
// matching that can keep them does.
func (w without) carries(expr parser.Expr) bool {
	switch node := expr.(type) {
	case *parser.VectorSelector:
		return !w[name(node)]
	case *parser.MatrixSelector:
		return w.carries(node.VectorSelector)
	case *parser.SubqueryExpr:
		return w.carries(node.Expr)
	case *parser.ParenExpr:
		return w.carries(node.Expr)
	case *parser.UnaryExpr:
		return w.carries(node.Expr)
	case *parser.StepInvariantExpr:
		return w.carries(node.Expr)
	case *parser.AggregateExpr:
		return w.carries(node.Expr)
	case *parser.Call:
		if slices.Contains([]string{"absent", "absent_over_time", "scalar", "vector"}, node.Func.Name) {
			return false
		}
		return slices.ContainsFunc(node.Args, w.carries)
	case *parser.BinaryExpr:
		switch {
		case node.VectorMatching == nil: // at most one of them is a vector
			return w.carries(node.LHS) || w.carries(node.RHS)
		case node.Op == parser.LAND, node.Op == parser.LUNLESS, node.VectorMatching.Card == parser.CardManyToOne:
			return w.carries(node.LHS)
		case node.VectorMatching.Card == parser.CardOneToMany:
			return w.carries(node.RHS)
		default:
			return w.carries(node.LHS) && w.carries(node.RHS)
		}
	}
	return false
}

func name(selector *parser.VectorSelector) string {
	for _, matcher := range selector.LabelMatchers {
		if matcher.Name == labels.MetricName && matcher.Type == labels.MatchEqual {
			return matcher.Value
		}
	}
	return selector.Name
}

// keep makes every aggregation and matching of an expression keep a label.
func (w without) keep(text, label string) (string, error) {
	parsed, err := read(text)
	if err != nil {
		return "", err
	}
	parser.Inspect(parsed.expr, func(node parser.Node, _ []parser.Node) error {
		switch node := node.(type) {
		case *parser.AggregateExpr:
			if w.carries(node.Expr) && !node.Without {
				parsed.groupBy(node, label)
			}
		case *parser.BinaryExpr:
			if complaint := w.match(parsed, node, label); complaint != nil {
				err = complaint
			}
		}
		return nil
	})
	return parsed.changed(), err
}

func (q *query) groupBy(node *parser.AggregateExpr, label string) {
	operator := q.at(node.PosRange.Start)
	clause := operator + 1
	if q.is(clause, parser.LEFT_PAREN) {
		for depth := 0; ; {
			if q.is(clause, parser.LEFT_PAREN) {
				depth++
			} else if q.is(clause, parser.RIGHT_PAREN) {
				depth--
			}
			clause++
			if depth == 0 {
				break
			}
		}
	}
	if q.is(clause, parser.BY) {
		q.prepend(clause+1, label)
	} else {
		q.insertions[q.end(operator)] = " by (" + label + ") "
	}
}

func (w without) match(q *query, node *parser.BinaryExpr, label string) error {
	matching := node.VectorMatching
	if matching == nil {
		return nil
	}
	left, right := w.carries(node.LHS), w.carries(node.RHS)
	if left && right {
		if matching.On {
			on := q.at(node.RHS.PositionRange().Start)
			for !q.is(on, parser.ON) {
				on--
			}
			q.prepend(on+1, label)
		}
		return nil
	}
	kept := matching.On && (node.Op != parser.LOR && node.Op.IsSetOperator() || matching.Card != parser.CardOneToOne)
	if left == right || kept {
		return nil
	}
	return fmt.Errorf("the label %s of one side is lost: %s", label, node)
}

// limit makes every selector of an expression ask for a matcher too, such as `cluster="$cluster"`. The expression may
// have Grafana's variables in it.
func limit(text, matcher string) (string, error) {
	parsed, err := read(grafanaVariable.ReplaceAllStringFunc(text, standIn))
	if err != nil {
		return "", fmt.Errorf("%s: %w", text, err)
	}
	parsed.text = text // the stand-ins are as long as the variables
	parser.Inspect(parsed.expr, func(node parser.Node, _ []parser.Node) error {
		if selector, ok := node.(*parser.VectorSelector); ok {
			index := parsed.at(selector.PosRange.Start)
			switch {
			case parsed.is(index, parser.LEFT_BRACE):
				parsed.prepend(index, matcher)
			case parsed.is(index+1, parser.LEFT_BRACE):
				parsed.prepend(index+1, matcher)
			default:
				parsed.insertions[parsed.end(index)] = "{" + matcher + "}"
			}
		}
		return nil
	})
	return parsed.changed(), nil
}

var grafanaVariable = regexp.MustCompile(`\$\{\w+\}|\$\w+`)

// standIn is as long as the variable: digits for what a unit follows or what is a number, else a duration.
func standIn(variable string) string {
	name := strings.Trim(variable, "${}")
	if strings.HasSuffix(name, "_s") || strings.HasSuffix(name, "_ms") {
		return strings.Repeat("0", len(variable)-1) + "1"
	}
	return strings.Repeat("0", len(variable)-2) + "1s"
}
