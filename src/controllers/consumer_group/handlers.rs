//! Who handles, as what stands in the pod: arguments of the worker and containers. Pure.

use k8s_openapi::api::core::v1::{Container, ContainerPort, EnvVar, VolumeMount};

use crate::api::{ContainerHandler, Handler, HttpHandler, Program, ServiceTarget};
use crate::controllers::pods;

/// What the worker is told of the handler.
pub(super) fn arguments(handler: &Handler, source: &str) -> Vec<String> {
    let Handler {
        http,
        container,
        sdk,
        timeout,
    } = handler;
    let mut arguments = vec![format!("--handler-timeout={timeout}")];
    if sdk.is_none() {
        arguments.push(format!("--source={source}"));
    }
    if let Some(HttpHandler { url, service, headers }) = http {
        if let Some(url) = url {
            arguments.push(format!("--handler-url={url}"));
        }
        if let Some(ServiceTarget { name, port, path }) = service {
            arguments.push(format!("--handler-service=http://{name}:{port}{path}"));
        }
        arguments.extend(
            headers
                .iter()
                .map(|header| format!("--handler-header={}={}", header.name, header.value)),
        );
    }
    if let Some(container) = container {
        arguments.push(format!(
            "--handler-service=http://127.0.0.1:{}{}",
            container.port, container.path
        ));
    }
    arguments
}

/// The container of a handler that runs beside the worker.
pub(super) fn beside_worker(handler: ContainerHandler) -> Container {
    let ContainerHandler { program, port, path: _ } = handler;
    Container {
        ports: Some(vec![ContainerPort {
            container_port: i32::from(port),
            ..ContainerPort::default()
        }]),
        ..program_container("handler", program)
    }
}

/// The program is the worker. What a worker of the operator's own is told by arguments, it is told
/// by variables, so that its own arguments stay its own.
pub(super) fn as_worker(program: Program, arguments: Vec<String>, mounts: Vec<VolumeMount>) -> Container {
    let container = program_container("worker", program);
    Container {
        env: Some(
            container
                .env
                .into_iter()
                .flatten()
                .chain(arguments.iter().filter_map(|it| variable(it)))
                .collect(),
        ),
        volume_mounts: Some(container.volume_mounts.into_iter().flatten().chain(mounts).collect()),
        ..container
    }
}

/// `--max-retries=3` as `SQLSTREAMS_MAX_RETRIES`, which every flag of a worker can be given as.
fn variable(argument: &str) -> Option<EnvVar> {
    let (name, value) = argument.strip_prefix("--")?.split_once('=')?;
    Some(EnvVar {
        name: format!("SQLSTREAMS_{}", name.to_uppercase().replace('-', "_")),
        value: Some(pods::literal(value)),
        value_from: None,
    })
}

fn program_container(name: &str, program: Program) -> Container {
    let Program {
        image,
        image_pull_policy,
        command,
        args,
        env,
        env_from,
        resources,
        volume_mounts,
    } = program;
    Container {
        name: name.into(),
        image: Some(image),
        image_pull_policy,
        command: some(command),
        args: some(args),
        env: some(env),
        env_from: some(env_from),
        resources,
        volume_mounts: some(volume_mounts),
        security_context: Some(pods::restricted_container()),
        ..Container::default()
    }
}

/// `None` for an empty collection, which a manifest leaves out.
pub(super) fn some<C>(collection: C) -> Option<C>
where
    for<'a> &'a C: IntoIterator,
{
    let empty = (&collection).into_iter().next().is_none();
    (!empty).then_some(collection)
}
