"""A call is decided on the resources' ARNs that AWS documents for it."""

from __future__ import annotations

from sam_on_moto.iam import arns

NAMER = arns.Namer("us-east-1", "123456789012")


def test_each_table_of_a_transaction_is_decided_on() -> None:
    items = [{"Put": {"TableName": "a"}}, {"Delete": {"TableName": "b"}}]
    asked = {"TransactItems": items}
    found = arns.resources(arns.FINDERS, "dynamodb", "TransactWriteItems", asked, "/", NAMER)
    assert [arn.rpartition("/")[2] for arn in found] == ["a", "b"]


def test_a_service_that_nobody_knows_has_any_resource_until_a_product_names_them() -> None:
    asked = {"Name": "x"}
    assert arns.resources(arns.FINDERS, "mine", "Get", asked, "/", NAMER) == ["*"]
    finders = {"mine": lambda action, p, path, namer: [namer.arn("mine", p["Name"])]}
    found = arns.resources(finders, "mine", "Get", asked, "/", NAMER)
    assert found == ["arn:aws:mine:us-east-1:123456789012:x"]
