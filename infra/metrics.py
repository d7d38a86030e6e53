"""CloudWatch metrics by the names that the components and AWS give them, for alarms and the dashboard."""

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch

from clarion.metrics import NAMESPACE, Metric, dimensions

SUM, MINIMUM, MAXIMUM, AVERAGE, SAMPLES, P99 = "Sum", "Minimum", "Maximum", "Average", "SampleCount", "p99"


def counted(
    stage: str, service: str, name: str, *, network: str | None = None, statistic: str = SUM, minutes: int = 5
) -> cloudwatch.Metric:
    """What a component of one deployment counts itself; names are in `clarion.metrics`."""
    return _metric(NAMESPACE, name, dimensions(service, stage, network), statistic, minutes)


def delivered_pushes(stage: str) -> cloudwatch.Metric:
    return counted(stage, "dispatch", Metric.LATENCY, statistic=SAMPLES).with_(label="delivered")


def of_queue(queue: str, name: str, *, statistic: str = MAXIMUM, minutes: int = 1) -> cloudwatch.Metric:
    """https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-available-cloudwatch-metrics.html"""
    return _metric("AWS/SQS", name, {"QueueName": queue}, statistic, minutes)


def of_function(function: str, name: str) -> cloudwatch.Metric:
    """https://docs.aws.amazon.com/lambda/latest/dg/monitoring-metrics-types.html"""
    return _metric("AWS/Lambda", name, {"FunctionName": function}, SUM, 5)


def of_all_functions(name: str) -> cloudwatch.Metric:
    """Of the account, in this region: Lambda records it without a dimension. See `of_function`."""
    return _metric("AWS/Lambda", name, {}, SUM, 5)


def of_table(table: str, name: str, *, index: str | None = None) -> cloudwatch.Metric:
    """https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/metrics-dimensions.html"""
    of_index = {"GlobalSecondaryIndexName": index} if index else {}
    return _metric("AWS/DynamoDB", name, {"TableName": table, **of_index}, SUM, 5)


def of_api(api_id: str, name: str, statistic: str = SUM) -> cloudwatch.Metric:
    """https://docs.aws.amazon.com/apigateway/latest/developerguide/http-api-metrics.html"""
    return _metric("AWS/ApiGateway", name, {"ApiId": api_id}, statistic, 5)


def of_stream(stream: str, name: str) -> cloudwatch.Metric:
    """https://docs.aws.amazon.com/firehose/latest/dev/monitoring-with-cloudwatch-metrics.html"""
    return _metric("AWS/Firehose", name, {"DeliveryStreamName": stream}, MAXIMUM, 5)


def of_targets(balancer: str, group: str, name: str, statistic: str) -> cloudwatch.Metric:
    """Of a network load balancer's: https://docs.aws.amazon.com/elasticloadbalancing/latest/network/load-balancer-cloudwatch-metrics.html"""
    return _metric("AWS/NetworkELB", name, {"LoadBalancer": balancer, "TargetGroup": group}, statistic, 1)


def _metric(namespace: str, name: str, dimensions: dict[str, str], statistic: str, minutes: int) -> cloudwatch.Metric:
    return cloudwatch.Metric(
        namespace=namespace,
        metric_name=name,
        dimensions_map=dimensions,
        statistic=statistic,
        period=Duration.minutes(minutes),
    )
