"""Documents of PMML, written by hand from what scikit-learn has fitted."""

from typing import Any

NAMES = ("sepal_length", "sepal_width", "petal_length", "petal_width")
SPECIES = ("setosa", "versicolor", "virginica")


def document(fields: str, model: str) -> str:
    return (
        '<?xml version="1.0" encoding="UTF-8"?>'
        '<PMML version="4.3" xmlns="http://www.dmg.org/PMML-4_3"><Header/>'
        f"<DataDictionary>{fields}</DataDictionary>{model}</PMML>"
    )


def field(name: str, dtype: str = "double", inside: str = "") -> str:
    kind = "continuous" if dtype in ("double", "float") or "<Interval" in inside else "categorical"
    return f'<DataField name="{name}" optype="{kind}" dataType="{dtype}">{inside}</DataField>'


def listed(*values: object) -> str:
    return "".join(f'<Value value="{each}"/>' for each in values)


def schema(target: str, *used: str) -> str:
    fields = "".join(each if "<" in each else f'<MiningField name="{each}"/>' for each in used)
    return f'<MiningSchema>{fields}<MiningField name="{target}" usageType="target"/></MiningSchema>'


def classifier(fitted: Any, classes: Any = SPECIES, dtype: str = "string") -> str:
    """Write a fitted LogisticRegression of the four numbers."""
    tables = "".join(
        table(intercept, weights, f' targetCategory="{label}"')
        for label, intercept, weights in zip(classes, fitted.intercept_, fitted.coef_, strict=True)
    )
    model = (
        '<RegressionModel functionName="classification" normalizationMethod="softmax">'
        f"{schema('species', *NAMES)}{tables}</RegressionModel>"
    )
    target = field("species", dtype, listed(*classes))
    return document("".join(map(field, NAMES)) + target, model)


def regressor(fitted: Any) -> str:
    """Write a fitted LinearRegression of the first three numbers."""
    model = (
        f'<RegressionModel functionName="regression">{schema("width", *NAMES[:3])}'
        f"{table(fitted.intercept_, fitted.coef_)}</RegressionModel>"
    )
    return document("".join(map(field, (*NAMES[:3], "width"))), model)


def table(intercept: float, weights: Any, more: str = "") -> str:
    predictors = "".join(
        f'<NumericPredictor name="{name}" coefficient="{float(weight)!r}"/>'
        for name, weight in zip(NAMES, weights, strict=False)
    )
    return f'<RegressionTable intercept="{float(intercept)!r}"{more}>{predictors}</RegressionTable>'


def tree() -> str:
    """Write a tree of a colour, an age from 0 to 120 and a flag; red ones are `yes`."""
    fields = (
        field("colour", "string", listed("red", "blue"))
        + field(
            "age", "integer", '<Interval closure="closedClosed" leftMargin="0" rightMargin="120"/>'
        )
        + field("answer", "string", listed("yes", "no"))
    )
    leaves = (
        '<Node score="yes"><CompoundPredicate booleanOperator="and">'
        '<SimplePredicate field="colour" operator="equal" value="red"/>'
        '<SimplePredicate field="age" operator="lessThan" value="50"/></CompoundPredicate>'
        '<ScoreDistribution value="yes" recordCount="3"/>'
        '<ScoreDistribution value="no" recordCount="1"/></Node>'
        '<Node score="no"><True/><ScoreDistribution value="yes" recordCount="1"/>'
        '<ScoreDistribution value="no" recordCount="9"/></Node>'
    )
    model = (
        '<TreeModel functionName="classification" splitCharacteristic="multiSplit">'
        f"{schema('answer', 'colour', 'age')}<Node><True/>{leaves}</Node></TreeModel>"
    )
    return document(fields, model)
