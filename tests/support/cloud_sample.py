"""A small template with every resource type of the real one; its functions misbehave on request."""

from __future__ import annotations

import json
from pathlib import Path

TEMPLATE = """
AWSTemplateFormatVersion: "2010-09-09"
Transform: AWS::Serverless-2016-10-31
Parameters:
  Greeting: {Type: String, Default: hello, AllowedPattern: "^[a-z]+$"}
  Mail: {Type: String, Default: ""}
Conditions:
  HasMail: !Not [!Equals [!Ref Mail, ""]]
Globals:
  Function:
    Runtime: python3.13
    Handler: handler.handler
    Timeout: 10
    Layers: [!Ref SharedLayer, !Ref PlainLayer]
    Environment:
      Variables:
        TABLE: !Ref Table
        BUCKET: !Ref Bucket
        BUS: !Ref Bus
        QUEUE: !Ref DeadLetters
        GREETING: !Ref Greeting
        MACHINE: !Sub "arn:aws:states:${AWS::Region}:${AWS::AccountId}:stateMachine:\
${AWS::StackName}-flow"
Resources:
  SharedLayer:
    Type: AWS::Serverless::LayerVersion
    Metadata: {BuildMethod: python3.13}
    Properties: {ContentUri: shared}
  PlainLayer:
    Type: AWS::Serverless::LayerVersion
    Properties: {ContentUri: plain}
  Api:
    Type: AWS::Serverless::HttpApi
    Properties: {Auth: {EnableIamAuthorizer: true, DefaultAuthorizer: AWS_IAM}}
  ApiFunction:
    Type: AWS::Serverless::Function
    Properties:
      FunctionName: !Sub ${AWS::StackName}-api
      CodeUri: api
      Role: !GetAtt FunctionRole.Arn
      Events:
        All: {Type: HttpApi, Properties: {ApiId: !Ref Api, Path: "/v1/{proxy+}", Method: ANY}}
  StepsFunction:
    Type: AWS::Serverless::Function
    Properties:
      FunctionName: !Sub "${AWS::StackName}-steps"
      CodeUri: steps
      Role: !GetAtt FunctionRole.Arn
      Timeout: 2
  FactFunction:
    Type: AWS::Serverless::Function
    Properties:
      FunctionName: !Sub ${AWS::StackName}-fact
      CodeUri: fact
      Role: !GetAtt FunctionRole.Arn
      DeadLetterQueue: {Type: SQS, TargetArn: !GetAtt DeadLetters.Arn}
      Events:
        Facts:
          Type: EventBridgeRule
          Properties:
            EventBusName: !Ref Bus
            Pattern: {source: [sample]}
            DeadLetterConfig: {Arn: !GetAtt DeadLetters.Arn}
        Minutely:
          Type: ScheduleV2
          Properties: {Name: !Sub "${AWS::StackName}-minutely", ScheduleExpression: rate(1 minute)}
  ForbiddenRule:
    Type: AWS::Events::Rule
    Properties:
      EventBusName: !Ref Bus
      EventPattern: {source: [forbidden]}
      Targets:
        - Id: t
          Arn: !GetAtt StepsFunction.Arn
          DeadLetterConfig: {Arn: !GetAtt DeadLetters.Arn}
  Flow:
    Type: AWS::Serverless::StateMachine
    Properties:
      Name: !Sub ${AWS::StackName}-flow
      DefinitionUri: flow.asl.json
      DefinitionSubstitutions: {Steps: !GetAtt StepsFunction.Arn, Api: !GetAtt ApiFunction.Arn}
      Policies: [{LambdaInvokePolicy: {FunctionName: !Ref StepsFunction}}]
  Table:
    Type: AWS::DynamoDB::Table
    Properties:
      BillingMode: PAY_PER_REQUEST
      AttributeDefinitions:
        - {AttributeName: pk, AttributeType: S}
        - {AttributeName: sk, AttributeType: S}
        - {AttributeName: gpk, AttributeType: S}
      KeySchema: [{AttributeName: pk, KeyType: HASH}, {AttributeName: sk, KeyType: RANGE}]
      GlobalSecondaryIndexes:
        - IndexName: gsi1
          KeySchema: [{AttributeName: gpk, KeyType: HASH}]
          Projection: {ProjectionType: ALL}
      PointInTimeRecoverySpecification: {PointInTimeRecoveryEnabled: true}
      TimeToLiveSpecification: {AttributeName: expiresAt, Enabled: true}
  Bucket:
    Type: AWS::S3::Bucket
    Properties: {BucketName: !Sub "sagemaker-sample-${AWS::AccountId}"}
  BucketPolicy:
    Type: AWS::S3::BucketPolicy
    Properties:
      Bucket: !Ref Bucket
      PolicyDocument:
        Version: "2012-10-17"
        Statement:
          - Effect: Deny
            Principal: "*"
            Action: "s3:*"
            Resource: [!GetAtt Bucket.Arn, !Sub "${Bucket.Arn}/*"]
            Condition: {Bool: {"aws:SecureTransport": "false"}}
  Bus: {Type: AWS::Events::EventBus, Properties: {Name: !Sub "${AWS::StackName}-sample"}}
  DeadLetters: {Type: AWS::SQS::Queue}
  Topic: {Type: AWS::SNS::Topic, Condition: HasMail}
  FunctionRole:
    Type: AWS::IAM::Role
    Properties:
      AssumeRolePolicyDocument:
        Version: "2012-10-17"
        Statement:
          - {Effect: Allow, Principal: {Service: lambda.amazonaws.com}, Action: "sts:AssumeRole"}
      ManagedPolicyArns:
        - !Sub "arn:${AWS::Partition}:iam::aws:policy/service-role/AWSLambdaBasicExecutionRole"
      Policies:
        - PolicyName: p
          PolicyDocument:
            Version: "2012-10-17"
            Statement:
              - Effect: Allow
                Action: ["dynamodb:PutItem", "dynamodb:GetItem", "dynamodb:UpdateItem"]
                Resource: !GetAtt Table.Arn
              - Effect: Allow
                Action: ["states:SendTaskSuccess", "states:SendTaskFailure"]
                Resource: "*"
              - {Effect: Allow, Action: "sqs:SendMessage", Resource: !GetAtt DeadLetters.Arn}
              - {Effect: Allow, Action: "s3:GetObject", Resource: !Sub "${Bucket.Arn}/open/*"}
              - Effect: Allow
                Action: "states:StartExecution"
                Resource: !Sub "arn:aws:states:*:*:stateMachine:${AWS::StackName}-flow"
Outputs:
  Table: {Value: !Ref Table}
  Queue: {Value: !Ref DeadLetters}
  Flow: {Value: !Ref Flow}
  Bus: {Value: !Ref Bus}
  Role: {Value: !GetAtt FunctionRole.Arn}
"""

FLOW = {
    "StartAt": "Work",
    "States": {
        "Work": {
            "Type": "Task",
            "Resource": "arn:aws:states:::lambda:invoke",
            "Parameters": {"FunctionName": "${Steps}", "Payload.$": "$"},
            "ResultSelector": {"answer.$": "$.Payload"},
            "Retry": [
                {
                    "ErrorEquals": ["RetryableError"],
                    "IntervalSeconds": 1,
                    "MaxAttempts": 2,
                    "BackoffRate": 1,
                }
            ],
            "Catch": [{"ErrorEquals": ["States.ALL"], "ResultPath": "$.trouble", "Next": "Told"}],
            "Next": "Which",
        },
        "Which": {
            "Type": "Choice",
            "Choices": [
                {"Variable": "$.answer.wait", "IsPresent": True, "Next": "Wait"},
                {"Variable": "$.answer.forbidden", "IsPresent": True, "Next": "Forbidden"},
                {"Variable": "$.answer.spin", "IsPresent": True, "Next": "Spin"},
            ],
            "Default": "Done",
        },
        "Wait": {
            "Type": "Task",
            "Resource": "arn:aws:states:::lambda:invoke.waitForTaskToken",
            "TimeoutSeconds": 60,
            "Parameters": {
                "FunctionName": "${Steps}",
                "Payload": {
                    "do.$": "$.answer.wait",
                    "key.$": "$.answer.key",
                    "token.$": "$$.Task.Token",
                },
            },
            "Next": "Done",
        },
        "Forbidden": {
            "Type": "Task",
            "Resource": "arn:aws:states:::lambda:invoke",
            "Parameters": {"FunctionName": "${Api}", "Payload": {}},
            "Catch": [{"ErrorEquals": ["States.ALL"], "ResultPath": "$.trouble", "Next": "Told"}],
            "Next": "Done",
        },
        "Spin": {
            "Type": "Choice",
            "Choices": [{"Variable": "$.answer.spin", "BooleanEquals": True, "Next": "Spin"}],
            "Default": "Done",
        },
        "Told": {"Type": "Pass", "End": True},
        "Done": {"Type": "Succeed"},
    },
}

API = """
import json, os, boto3, shared_code
clients = {name: boto3.client(name) for name in ("dynamodb", "stepfunctions")}
def handler(event, context):
    action = (event.get("pathParameters") or {}).get("proxy", "")
    if action == "crash":
        os._exit(3)
    if action == "huge":
        return "x" * int(event["queryStringParameters"]["bytes"])
    if action == "boom":
        raise ValueError("boom")
    if action == "sleep":
        import pathlib, time
        pathlib.Path(os.environ["TRAINYARD_LOCAL"], "asleep").touch()
        time.sleep(30)
    if action == "put":
        item = {"pk": {"S": "a"}, "sk": {"S": "b"}}
        clients["dynamodb"].put_item(TableName=os.environ["TABLE"], Item=item)
    if action == "delete-table":
        clients["dynamodb"].delete_table(TableName=os.environ["TABLE"])
    if action == "whoami":
        return {"arn": boto3.client("sts").get_caller_identity()["Arn"]}
    if action == "pid":
        return {"pid": os.getpid()}
    if action == "start":
        name = json.loads(event["body"])["name"]
        item = {"pk": {"S": name}, "sk": {"S": "b"}}
        clients["dynamodb"].put_item(TableName=os.environ["TABLE"], Item=item)
        flow = os.environ["MACHINE"]
        clients["stepfunctions"].start_execution(stateMachineArn=flow, name=name, input="{}")
        return {"statusCode": 202, "body": "{}"}
    body = {"event": event, "greeting": os.environ["GREETING"], "layer": shared_code.NAME,
            "plain": os.path.exists(shared_code.OPT / "plain.txt"),
            "tag": os.environ["TRAINYARD_LOCAL"], "handler": os.environ["_HANDLER"]}
    headers = {"x-sample": "yes"}
    text = json.dumps(body)
    return {"statusCode": 201, "headers": headers, "cookies": ["a=b"], "body": text}
"""

STEPS = """
import os, time, boto3
sfn, ddb = boto3.client("stepfunctions"), boto3.client("dynamodb")
class RetryableError(Exception): pass
def handler(event, context):
    do = event.get("do", "")
    if do == "retry":
        n = ddb.update_item(
            TableName=os.environ["TABLE"], Key={"pk": {"S": event["key"]}, "sk": {"S": "n"}},
            UpdateExpression="ADD n :o", ExpressionAttributeValues={":o": {"N": "1"}},
            ReturnValues="UPDATED_NEW",
        )["Attributes"]["n"]["N"]
        if int(n) < 2: raise RetryableError(n)
        return {"tries": int(n)}
    if do == "fail": raise ValueError("no")
    if do == "sleep": time.sleep(30)
    if do == "crash": os._exit(7)
    if do == "wait": return {"wait": event["then"], "key": event.get("key", "")}
    if do == "huge": return "x" * event["bytes"]
    if do == "spin": return {"spin": True}
    if do == "forbidden": return {"forbidden": True}
    if do == "at-once": sfn.send_task_success(taskToken=event["token"], output="{}")
    if do == "store":
        key = {"pk": {"S": event["key"]}, "sk": {"S": "token"}}
        ddb.put_item(TableName=os.environ["TABLE"], Item={**key, "token": {"S": event["token"]}})
    return {"echo": event}
"""

FACT = """
import json, os, boto3
ddb = boto3.client("dynamodb")
def handler(event, context):
    print("a fact:", event["detail-type"])
    if event["detail-type"] == "Poison": raise ValueError("cannot record this")
    detail = event["detail"]
    ddb.put_item(TableName=os.environ["TABLE"], Item={
        "pk": {"S": "fact"},
        "sk": {"S": detail["key"] if isinstance(detail, dict) else "scheduled"},
        "event": {"S": json.dumps(event)},
    })
"""


def write(folder: Path, *, template: str = TEMPLATE) -> Path:
    """Write the sample; returns the template's path."""
    files = {
        "template.yaml": template,
        "flow.asl.json": json.dumps(FLOW),
        "api/handler.py": API,
        "steps/handler.py": STEPS,
        "fact/handler.py": FACT,
        "shared/shared_code.py": (
            'from pathlib import Path\nNAME = "shared"\nOPT = Path(__file__).parents[1]\n'
        ),
        "plain/plain.txt": "plain",
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder / "template.yaml"
