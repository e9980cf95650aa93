"""The part of grpcurl that the README uses: calls a method with a JSON message, by server reflection."""

import sys

import grpc
from google.protobuf import json_format
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

options = {"-H": "", "-d": "{}"}
arguments = iter(sys.argv[1:])
words = []
for argument in arguments:
    if argument in options:
        options[argument] = next(arguments)
    elif argument != "-plaintext":
        words.append(argument)
address, method = words

channel = grpc.insecure_channel(address)
service, name = method.split("/")
pool = DescriptorPool(ProtoReflectionDescriptorDatabase(channel))
descriptor = pool.FindServiceByName(service).FindMethodByName(name)
request = json_format.Parse(options["-d"], GetMessageClass(descriptor.input_type)())
header, value = options["-H"].split(": ", 1)
call = channel.unary_unary(
    f"/{method}",
    request_serializer=lambda message: message.SerializeToString(),
    response_deserializer=GetMessageClass(descriptor.output_type).FromString,
)
print(json_format.MessageToJson(call(request, metadata=[(header, value)])))
